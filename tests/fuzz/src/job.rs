//! A job's directory becomes an archive, which must be readable whatever was in the directory.
//!
//! | piece | file of a part |
//! |---|---|
//! | `N` | the next part begins |
//! | `S` | a segment of the journal |
//! | `E` | a number, and the event file of that number |
//! | others | see [`NAMES`] |

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use ::archive::{FinalizeOptions, FinalizeSummary, PartState};

use crate::archive;
use crate::pieces::{self, Piece};
use crate::segments::{self, SEGMENT, Segment};

pub(crate) const NAMES: [(u8, &str); 8] = [
    (b'P', "process.json"),
    (b'M', "manifest"),
    (b'C', "collectives"),
    (b'R', "remote-transfers"),
    (b'D', "done"),
    (b'L', "late.json"),
    (b'X', "chain.json"),
    (b'O', "scorep.json"),
];
/// Kinds of pieces: the next part, and an event file.
pub(crate) const NEXT: u8 = b'N';
pub(crate) const EVENTS: u8 = b'E';
const MOST_PARTS: usize = 4;

const RECORDED: &[u8] = b"NSPLXO";

pub(crate) fn finalize(input: &[u8]) {
    let (_, mut pieces) = pieces::split(input);
    pieces.retain(|piece| RECORDED.contains(&piece.kind));
    let scratch = tempfile::tempdir().expect("a directory");
    let Some(summary) = finalize_pieces(&pieces, scratch.path()) else { return };
    if let Some(made) = &summary.archive {
        let events = archive::read_written(&made.anchor);
        assert_eq!(events, made.size.events, "events of {}", made.anchor.display());
    }
    for part in &summary.parts {
        if let PartState::Written(written) = &part.state {
            assert_eq!(written.problems.is_empty(), part.problems.is_empty(), "{part:?}");
        }
    }
}

pub(crate) fn unify(input: &[u8]) {
    let (_, pieces) = pieces::split(input);
    let scratch = tempfile::tempdir().expect("a directory");
    let summary = finalize_pieces(&pieces, scratch.path());
    if let Some(made) = summary.and_then(|summary| summary.archive) {
        archive::read_definitions(&made.anchor);
    }
}

fn finalize_pieces(pieces: &[Piece<'_>], out: &Path) -> Option<FinalizeSummary> {
    for (number, part) in pieces.split(|piece| piece.kind == NEXT).take(MOST_PARTS).enumerate() {
        write_part(&out.join("parts").join(format!("host-{number}-1")), part);
    }
    let jobs = NonZeroUsize::new(1);
    let options = FinalizeOptions { jobs, include_live: true, keep_journal: true, ..FinalizeOptions::default() };
    ::archive::finalize(out, &options, &()).ok()
}

fn write_part(part: &Path, pieces: &[Piece<'_>]) {
    fs::create_dir_all(part.join("traces")).expect("a directory");
    let segments = Segment::all(pieces);
    if !segments.is_empty() || !pieces.iter().any(|piece| piece.kind == b'D') {
        segments::write_all(&segments, &part.join("journal"));
    }
    for piece in pieces.iter().filter(|piece| piece.kind != SEGMENT) {
        if let Some((_, name)) = NAMES.iter().find(|(kind, _)| *kind == piece.kind) {
            fs::write(part.join(name), piece.bytes).expect("written");
        } else if let (EVENTS, Some((number, bytes))) = (piece.kind, piece.bytes.split_first()) {
            fs::write(part.join("traces").join(format!("{number}.evt")), bytes).expect("written");
        }
    }
}
