package house

import (
	"fmt"
	"go/doc"
	"path"
	"slices"
	"testing"
)

// compiledOnly are the packages whose Example is only compiled, with the reason. Each needs
// something that `go test` of its package alone does not have.
var compiledOnly = map[string]string{
	"open/all":                         "a server: the package is for stores on servers",
	"web/session/redissession":         "a Redis server",
	"web/session/sqlsession":           "a driver for database/sql, which the root module cannot require",
	"stores/dynamostore":               "DynamoDB",
	"stores/etcdstore":                 "an etcd server",
	"stores/leasestore":                "an API server of Kubernetes",
	"stores/memcachestore":             "a memcached server",
	"stores/mongostore":                "a MongoDB server",
	"stores/mysqladvisory":             "a MySQL or MariaDB server",
	"stores/pgadvisory":                "a PostgreSQL server",
	"stores/redisstore":                "a Redis server",
	"stores/s3store":                   "a bucket of S3",
	"stores/semstore":                  "semaphores of the kernel, which would outlive the test",
	"stores/sqlstore":                  "a driver for database/sql; stores/sqlstore/drivers/sqlite has an Example that runs",
	"stores/sqlstore/symfony":          "a driver for database/sql, which the root module cannot require",
	"stores/sqlstore/drivers/mysql":    "a MySQL or MariaDB server",
	"stores/sqlstore/drivers/postgres": "a PostgreSQL server",
	"stores/zkstore":                   "a ZooKeeper server",
}

// withoutExample are the public packages that need no Example, with the reason.
var withoutExample = map[string]string{
	"storekit/advisory": "its API is not stable: it has two users, both in this tree",
}

// TestExamples checks that each public package has an Example whose output is checked, or an
// Example that is compiled only, with a reason.
func TestExamples(t *testing.T) {
	files := readHouse(t)
	report(t, checkExamples(files, compiledOnly, withoutExample))
}

func checkExamples(files []*houseFile, compiled, without map[string]string) (found []string) {
	checked, written := map[string]bool{}, map[string]bool{} // by package: an Example runs, or exists
	first := map[string]*houseFile{}
	for _, f := range files {
		if public(f) && first[f.pkg()] == nil {
			first[f.pkg()] = f
		}
		if f.ast == nil || !f.test() {
			continue
		}
		for _, e := range doc.Examples(f.ast) {
			written[f.pkg()] = true
			if e.Output != "" || e.EmptyOutput {
				checked[f.pkg()] = true
			}
		}
	}
	for pkg, f := range first {
		say := func(what string) {
			found = append(found, fmt.Sprintf("%s: package %s %s", f.position(f.ast.Package), pkg, what))
		}
		switch {
		case checked[pkg] && compiled[pkg]+without[pkg] != "":
			say("has an Example that runs: remove it from the lists in examples_test.go")
		case checked[pkg], without[pkg] != "", written[pkg] && compiled[pkg] != "":
		case compiled[pkg] != "":
			say("has no Example: write what a user would write, it is compiled only")
		default:
			say("has no Example whose output is checked: write what a user would write, in " + path.Join(pkg, "example_test.go"))
		}
	}
	for _, list := range []map[string]string{compiled, without} {
		for pkg := range list {
			if first[pkg] == nil {
				found = append(found, fmt.Sprintf("internal/house/examples_test.go: there is no package %s", pkg))
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestExamplesBite(t *testing.T) {
	parse := func(name, src string) *houseFile {
		f, err := parseHouse(name, ".", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	code := parse("a/a.go", "package a\n\nfunc F() {}\n")
	runs := parse("a/example_test.go", "package a_test\n\nfunc Example() {\n\tprintln()\n\t// Output: x\n}\n")
	idle := parse("a/example_test.go", "package a_test\n\nfunc Example() {\n\tprintln()\n}\n")
	main := parse("b/main.go", "package main\n")
	reason := map[string]string{"a": "a server"}
	for _, b := range []struct {
		files             []*houseFile
		compiled, without map[string]string
		want              string
	}{
		{[]*houseFile{code, runs, main}, nil, nil, ""},
		{[]*houseFile{code}, nil, nil, "no Example whose output is checked"},
		{[]*houseFile{code, idle}, nil, nil, "no Example whose output is checked"},
		{[]*houseFile{code, idle}, reason, nil, ""},
		{[]*houseFile{code}, reason, nil, "it is compiled only"},
		{[]*houseFile{code}, nil, reason, ""},
		{[]*houseFile{code, runs}, reason, nil, "remove it from the lists"},
		{[]*houseFile{code, runs}, map[string]string{"c": "gone"}, nil, "there is no package c"},
	} {
		expect(t, checkExamples(b.files, b.compiled, b.without), b.want)
	}
}
