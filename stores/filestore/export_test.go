package filestore

// FileName is fileName, for tests from outside.
var FileName = fileName
