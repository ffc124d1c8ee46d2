//! Chooses the options that all parts of an archive are written with.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::archive::unify::most_common;
use crate::error::Error;
use crate::part::manifest::Manifest;
use journal::part::environment::{ArchiveOptions, ArchiveWishes};
use journal::part::{JOURNAL, read_process};

#[derive(Clone, Copy, Debug, Default)]
pub struct FinalizeOptions {
    /// Whether to write what running processes have recorded so far. They continue to record, and the journal stays.
    pub include_live: bool,
    /// Whether journals stay after their part is written. Damaged journals always stay.
    pub keep_journal: bool,
    /// Write only every n-th part, starting with the i-th: `(i, n)`. Does not unify.
    pub shard: Option<(usize, usize)>,
    /// How many parts are written at once; `None` for one per core. Fewer if memory is short: writing takes about three
    /// times the size of the journal, and at most half of the free memory is used.
    pub jobs: Option<NonZeroUsize>,
    /// The requested options; others stay as they are.
    pub wishes: ArchiveWishes,
}

#[derive(Debug)]
pub(super) enum Known {
    /// How the part was written, and the problems of its journal.
    Part {
        options: ArchiveOptions,
        problems: Vec<String>,
        /// Whether the part can be written again.
        has_journal: bool,
        has_lost_events: bool,
    },
    Unreadable {
        reason: String,
        /// Whether the part can be written again: its journal exists, and no other version wrote the part.
        can_be_written: bool,
    },
}

impl Known {
    pub(super) fn of(part: &Path) -> Self {
        match Manifest::read_with_events(part) {
            Ok(manifest) => Self::Part {
                options: manifest.options,
                has_lost_events: manifest.has_lost_events,
                problems: manifest.all_problems(),
                has_journal: part.join(JOURNAL).exists(),
            },
            Err(error) => Self::Unreadable { reason: error.to_string(), can_be_written: can_be_written(part, &error) },
        }
    }
}

/// Whether a part with an unreadable manifest can be written again.
pub(super) fn can_be_written(part: &Path, error: &Error) -> bool {
    !matches!(error, Error::ManifestFormat { .. }) && part.join(JOURNAL).exists()
}

/// The options for all parts: as requested. Other options come from most parts that cannot be written again, else from
/// the first written part, else from the first process.
pub(super) fn options_of_all(
    parts: &[PathBuf],
    known: &[Option<Known>],
    wishes: &ArchiveWishes,
) -> Result<ArchiveOptions, Error> {
    let written = || {
        parts.iter().zip(known).filter_map(|(part, known)| match known {
            Some(Known::Part { options, has_journal, .. }) => Some((part, *options, *has_journal)),
            _ => None,
        })
    };
    let fixed = || written().filter(|(_, _, has_journal)| !has_journal);
    let before = most_common(fixed().map(|(_, options, _)| options));
    let before = before
        .or_else(|| written().map(|(_, options, _)| options).next())
        .unwrap_or_else(|| parts.first().map(|part| read_process(part).0.archive).unwrap_or_default());
    let options = wishes.over(before);
    let mut stuck = fixed().filter(|(_, written, _)| !written.same_events(&options));
    match stuck.next() {
        Some((first, ..)) if !wishes.is_empty() => {
            Err(Error::Removed { count: 1 + stuck.count(), first: first.join(JOURNAL) })
        }
        _ => Ok(options),
    }
}
