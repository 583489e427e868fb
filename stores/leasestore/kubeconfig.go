package leasestore

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/padlock-go/padlock/storekit"
)

// A kubeconfig is as much of the files of kubectl as the store knows. Some settings are there only
// to be refused, since the store must not ignore them.
type kubeconfig struct {
	Current  string         `yaml:"current-context"`
	Clusters []namedCluster `yaml:"clusters"`
	Contexts []namedContext `yaml:"contexts"`
	Users    []namedUser    `yaml:"users"`
}

type namedCluster struct {
	Name    string
	Cluster struct {
		Server     string
		CAData     string `yaml:"certificate-authority-data"`
		CAFile     string `yaml:"certificate-authority"`
		ServerName string `yaml:"tls-server-name"`
		Insecure   bool   `yaml:"insecure-skip-tls-verify"`
		Proxy      string `yaml:"proxy-url"`
	}
}

type namedContext struct {
	Name    string
	Context struct{ Cluster, User, Namespace string }
}

type namedUser struct {
	Name string
	User struct {
		Token        string
		TokenFile    string `yaml:"tokenFile"`
		CertData     string `yaml:"client-certificate-data"`
		CertFile     string `yaml:"client-certificate"`
		KeyData      string `yaml:"client-key-data"`
		KeyFile      string `yaml:"client-key"`
		Exec         any
		AuthProvider any `yaml:"auth-provider"`
		Username     string
		As           string
	}
}

// kubeconfigFiles returns the files that kubectl reads.
func kubeconfigFiles() []string {
	if list := os.Getenv("KUBECONFIG"); list != "" {
		return filepath.SplitList(list)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(home, ".kube", "config")}
}

// readKubeconfig reads the files. As for kubectl, the first one that says something counts, and a
// missing file is none. It returns nil if there is no file at all.
func readKubeconfig(files []string) (*kubeconfig, error) {
	var all *kubeconfig
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, storekit.Invalidf("the kubeconfig: %w", err)
		}
		var k kubeconfig
		if err := yaml.Unmarshal(text, &k); err != nil {
			return nil, storekit.Invalidf("the kubeconfig: %s cannot be read as YAML", file) // err may quote a secret
		}
		folder, err := filepath.Abs(filepath.Dir(file)) // the program may change its directory
		if err != nil {
			return nil, storekit.Invalidf("the kubeconfig: %w", err)
		}
		k.resolve(folder)
		if all == nil {
			all = &kubeconfig{}
		}
		if all.Current == "" {
			all.Current = k.Current
		}
		all.Clusters, all.Contexts, all.Users = append(all.Clusters, k.Clusters...), append(all.Contexts, k.Contexts...), append(all.Users, k.Users...)
	}
	return all, nil
}

// resolve makes the paths in a file absolute. They are relative to the folder of the file.
func (k *kubeconfig) resolve(folder string) {
	in := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
	}
	for i := range k.Clusters {
		in(&k.Clusters[i].Cluster.CAFile)
	}
	for i := range k.Users {
		u := &k.Users[i].User
		in(&u.TokenFile)
		in(&u.CertFile)
		in(&u.KeyFile)
	}
}

// access returns how to reach the server of a context, or of the current one if name is "".
func (k *kubeconfig) access(name string) (*access, error) {
	if name == "" {
		name = k.Current
	}
	var context *namedContext
	for i := range k.Contexts {
		if k.Contexts[i].Name == name && context == nil {
			context = &k.Contexts[i]
		}
	}
	if context == nil {
		return nil, storekit.Invalidf("the kubeconfig has no context %q; write context=NAME, or run kubectl config use-context NAME", name)
	}
	a := &access{namespace: context.Context.Namespace}
	if a.namespace == "" {
		a.namespace = "default"
	}
	if err := k.cluster(context.Context.Cluster, a); err != nil {
		return nil, err
	}
	if err := k.user(context.Context.User, a); err != nil {
		return nil, err
	}
	if a.base.Scheme == "http" && a.token != nil {
		return nil, storekit.Invalidf("the kubeconfig: the server of the cluster %q has an http URL, so the token of the user %q could be read on the way; write https, or a context without a user", context.Context.Cluster, context.Context.User)
	}
	return a, nil
}

func (k *kubeconfig) cluster(name string, a *access) (err error) {
	for i := range k.Clusters {
		if k.Clusters[i].Name != name {
			continue
		}
		c := &k.Clusters[i].Cluster
		switch a.base, err = url.Parse(c.Server); {
		case err != nil || a.base.Host == "" || a.base.Scheme != "https" && a.base.Scheme != "http":
			return storekit.Invalidf("the kubeconfig: the server of the cluster %q is no URL", name)
		case a.base.User != nil:
			return storekit.Invalidf("the kubeconfig: the server of the cluster %q has a user in its URL, which padlock does not use; use a token or a certificate", name)
		case c.Insecure:
			return storekit.Invalidf("the kubeconfig: the cluster %q has insecure-skip-tls-verify, which padlock does not do; write certificate-authority", name)
		case c.Proxy != "":
			return storekit.Invalidf("the kubeconfig: the cluster %q has a proxy-url, which padlock does not use; set HTTPS_PROXY", name)
		}
		a.serverName = c.ServerName
		a.ca, err = content(c.CAData, c.CAFile)
		return err
	}
	return storekit.Invalidf("the kubeconfig has no cluster %q", name)
}

func (k *kubeconfig) user(name string, a *access) error {
	for i := range k.Users {
		if k.Users[i].Name != name {
			continue
		}
		u := &k.Users[i].User
		switch {
		case u.Exec != nil || u.AuthProvider != nil:
			return storekit.Invalidf("the kubeconfig: the user %q logs in with a program (exec or auth-provider), which padlock does not run; start kubectl proxy, and write endpoint=http://127.0.0.1:8001", name)
		case u.Username != "" || u.As != "":
			return storekit.Invalidf("the kubeconfig: the user %q logs in with a password, or as somebody else, which padlock does not do; use a token or a certificate", name)
		}
		if u.TokenFile != "" { // as for kubectl, the token in the file counts
			a.token = fromFile(u.TokenFile)
		} else if u.Token != "" {
			a.token = func() (string, error) { return u.Token, nil }
		}
		cert, err := content(u.CertData, u.CertFile)
		if err != nil || cert == nil {
			return err
		}
		key, err := content(u.KeyData, u.KeyFile)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return storekit.Invalidf("the kubeconfig: the certificate of the user %q: %w", name, err)
		}
		a.cert = []tls.Certificate{pair}
		if u.CertData == "" && u.KeyData == "" {
			a.certFile, a.keyFile = u.CertFile, u.KeyFile
		}
		return nil
	}
	if name == "" {
		return nil
	}
	return storekit.Invalidf("the kubeconfig has no user %q", name)
}

// content returns data in base64, or the content of a file, or nil.
func content(data, file string) ([]byte, error) {
	if data != "" {
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, storekit.Invalidf("the kubeconfig: a certificate or key is not in base64")
		}
		return text, nil
	}
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, storekit.Invalidf("the kubeconfig: %w", err)
	}
	return text, nil
}
