package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// archive packs a directory, with its own name as the only entry at the top.
func (j *job) archive(w io.Writer) error {
	top := filepath.Base(j.args[0])
	if strings.HasSuffix(j.out, ".zip") {
		return zipDir(w, j.args[0], top, j.time())
	}
	return gzipped(w, func(w io.Writer) error { return tarDir(w, j.args[0], top, j.time()) })
}

// gzipped compresses what fill writes. The header has neither a name nor a time.
func gzipped(w io.Writer, fill func(io.Writer) error) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := fill(z); err != nil {
		return err
	}
	return z.Close()
}

// mode returns the rights of an entry. Those of the build's umask are left out.
func mode(info fs.FileInfo) fs.FileMode {
	if info.IsDir() || info.Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// tarDir writes dir as a tar, which belongs to root. Names begin with prefix.
func tarDir(w io.Writer, dir, prefix string, at time.Time) error {
	t := tar.NewWriter(w)
	err := eachFile(dir, prefix, func(name, file string, info fs.FileInfo) error {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(mode(info)),
			ModTime: at, Format: tar.FormatPAX,
		}
		if info.IsDir() {
			h.Typeflag, h.Name, h.Size = tar.TypeDir, name+"/", 0
		}
		if err := t.WriteHeader(h); err != nil || info.IsDir() {
			return err
		}
		return copyFile(t, file)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

// zipDir writes dir as a zip.
func zipDir(w io.Writer, dir, prefix string, at time.Time) error {
	z := zip.NewWriter(w)
	err := eachFile(dir, prefix, func(name, file string, info fs.FileInfo) error {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		h.SetMode(mode(info))
		if info.IsDir() {
			h.SetMode(fs.ModeDir | mode(info))
			h.Name, h.Method = name+"/", zip.Store
		}
		to, err := z.CreateHeader(h)
		if err != nil || info.IsDir() {
			return err
		}
		return copyFile(to, file)
	})
	if err != nil {
		return err
	}
	return z.Close()
}

// eachFile calls add for each directory and file below dir, in the order of their names. It leaves
// out dir itself if prefix is empty.
func eachFile(dir, prefix string, add func(name, file string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Join(prefix, rel))
		if name == "." {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return add(name, file, info)
	})
}

func copyFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
