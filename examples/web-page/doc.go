// Web-page is the program of docs/web.md: a page that shows locks.
package main
