package confine

// forbiddenHere are system calls that only this architecture has.
var forbiddenHere []uint32

// missingHere belong to missing.
var missingHere []uint32

// ofFilesHere belong to ofFiles.
var ofFilesHere []uint32
