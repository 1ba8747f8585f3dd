// Package window answers when work may begin: whether a list of recurring windows is open at a
// time, until when, and when it opens next. It is pure: it asks no clock, and takes times as
// arguments. The zones of the IANA database are built in, so that an image without zone files
// knows them.
//
// A rule is written in the wall-clock time of a zone, and a window lasts as long as it says in
// real time: one of 4 h that begins at 00:00 where the clocks go back at 03:00 ends at 03:00, an
// hour earlier on the clock than on other days. Where the clocks change, a beginning is read as RFC 5545
// section 3.3.5 reads a local time, for both kinds of rule:
//
//   - A beginning that doesn't occur, since the clocks go ahead over it, is read by the offset that held
//     before: 02:30 of a night in which 02:00 is followed by 03:00 is what the clocks then call 03:30.
//   - A beginning that occurs twice is the first of the two. The second opens nothing.
package window
