package leasestore

import (
	"maps"
	"strings"
	"sync"
)

// others remembers what other programs have written into objects in the layout of client-go:
// labels, annotations, owners, finalizers, and the two fields of the spec that padlock does not use.
// A Put replaces a whole object, so it has to write all that again. If it has changed since the Get,
// the Put fails, because the version of the object has changed, too.
type others struct{ known sync.Map } // a lease by the name of the object

func (s *others) note(o *lease) {
	m := &o.Metadata
	theirs := metadata{Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations), Owners: m.Owners, Finalizers: m.Finalizers}
	if theirs.Labels[managedBy] == "padlock" {
		delete(theirs.Labels, managedBy)
	}
	maps.DeleteFunc(theirs.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, group) })
	unused := spec{Strategy: o.Spec.Strategy, Preferred: o.Spec.Preferred}
	if len(theirs.Labels)+len(theirs.Annotations)+len(theirs.Owners)+len(theirs.Finalizers) == 0 && unused == (spec{}) {
		s.known.Delete(m.Name)
		return
	}
	s.known.Store(m.Name, lease{Metadata: theirs, Spec: unused})
}

// keepIn adds what note has remembered. Another program's label about the manager stays, so such an
// object is in no list.
func (s *others) keepIn(o *lease) {
	m := &o.Metadata
	v, ok := s.known.Load(m.Name)
	if !ok {
		return
	}
	kept := v.(lease)
	theirs := kept.Metadata
	maps.Copy(m.Labels, theirs.Labels)
	maps.Copy(m.Annotations, theirs.Annotations)
	m.Owners, m.Finalizers = theirs.Owners, theirs.Finalizers
	o.Spec.Strategy, o.Spec.Preferred = kept.Spec.Strategy, kept.Spec.Preferred
}
