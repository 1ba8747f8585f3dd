package objects

// NotesRef holds the outcome of operations as notes on their commits:
// git log --notes=jibe.
const NotesRef = "refs/notes/jibe"
