package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// A descriptor names a blob of an OCI image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// user is the user of the image. The number needs no entry in a file of the host.
const user = "65532:65532"

// A layout is an OCI image layout: its blobs, by digest.
type layout map[string][]byte

func (l layout) add(mediaType string, blob []byte) descriptor {
	digest := sum(blob)
	l[digest] = blob
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(blob)}
}

func (l layout) addJSON(mediaType string, v any) (descriptor, error) {
	blob, err := json.Marshal(v)
	return l.add(mediaType, blob), err
}

func sum(blob []byte) string {
	digest := sha256.Sum256(blob)
	return hex.EncodeToString(digest[:])
}

// image writes a layout as a tar: one image for each architecture, and an index of them. podman,
// skopeo, and docker with containerd's store load it.
func (j *job) image(w io.Writer) error {
	l := layout{}
	var manifests []descriptor
	for _, arg := range j.args {
		system, dir, ok := strings.Cut(arg, "=")
		goos, arch, both := strings.Cut(system, "/")
		if !ok || !both {
			return fmt.Errorf("%s is not linux/ARCHITECTURE=DIRECTORY", arg)
		}
		m, err := l.addImage(j, platform{OS: goos, Architecture: arch}, dir)
		if err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	index, err := l.addJSON(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests})
	if err != nil {
		return err
	}
	tag := strings.TrimPrefix(j.version, "v")
	index.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "docker.io/library/" + j.name + ":" + tag,
	}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{index}})
	return errors.Join(err, l.write(w, j, top))
}

// addImage adds the image of one architecture, and returns its manifest. Without PADLOCK_STORE a
// container would lock files that no other container sees, so the image refuses that.
func (l layout) addImage(j *job, p platform, dir string) (descriptor, error) {
	var packed, plain bytes.Buffer
	if err := tarDir(&plain, dir, "", j.time()); err != nil {
		return descriptor{}, err
	}
	if err := gzipped(&packed, func(w io.Writer) error { _, err := w.Write(plain.Bytes()); return err }); err != nil {
		return descriptor{}, err
	}
	layer := l.add(typeLayer, packed.Bytes())
	config, err := l.addJSON(typeConfig, map[string]any{
		"created": j.time(), "architecture": p.Architecture, "os": p.OS,
		"config": map[string]any{
			"User": user, "Entrypoint": []string{"/usr/bin/" + j.name},
			"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin", "PADLOCK_STORE=required"},
			"Labels": map[string]string{
				"org.opencontainers.image.title": j.name, "org.opencontainers.image.version": j.version,
				"org.opencontainers.image.licenses": "MIT", "org.opencontainers.image.source": home,
			},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(plain.Bytes())}},
		"history": []any{map[string]any{"created": j.time(), "created_by": "make release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	m, err := l.addJSON(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layer},
	})
	m.Platform = &p
	return m, err
}

func (l layout) write(w io.Writer, j *job, index []byte) error {
	t := tar.NewWriter(w)
	put := func(name string, blob []byte) error {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(blob)), ModTime: j.time(), Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := t.Write(blob)
		return err
	}
	err := errors.Join(put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)), put("index.json", index))
	for _, digest := range slices.Sorted(maps.Keys(l)) {
		err = errors.Join(err, put("blobs/sha256/"+digest, l[digest]))
	}
	return errors.Join(err, t.Close())
}
