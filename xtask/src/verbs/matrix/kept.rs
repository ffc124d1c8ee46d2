//! What became of the runs of earlier starts: a file for each cell, so that a few cells can be run again after a change
//! and the page still shows all.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cells::Cell;
use super::table::{Outcome, Verdict};
use crate::cache;

/// Keeps what became of a run.
pub(super) fn keep(folder: &Path, release: &str, cell: &Cell, outcome: &Outcome) -> Result<()> {
    let path = file(folder, release, cell);
    cache::create(path.parent().unwrap_or(folder))?;
    cache::write(&path, serde_json::to_string(outcome)?)
}

/// What became of the last run, if there was one; the reasons are those of the list of cells, as it is now.
pub(super) fn last(folder: &Path, release: &str, cell: &Cell) -> Outcome {
    let exception = cell.exception(release);
    let impossible = exception.filter(|exception| exception.instead.is_none());
    if let Some(exception) = impossible {
        return Outcome::not_run(Verdict::Impossible { why: exception.why.to_owned() });
    }
    let text = std::fs::read(file(folder, release, cell)).unwrap_or_default();
    let mut outcome: Outcome = serde_json::from_slice(&text).unwrap_or_else(|_| Outcome::not_run(Verdict::NotRun));
    if let Verdict::Good { around, .. } = &mut outcome.verdict {
        *around = exception.map(|exception| exception.why.to_owned());
    }
    outcome
}

fn file(folder: &Path, release: &str, cell: &Cell) -> PathBuf {
    folder.join(release).join(format!("{}.json", cell.name))
}

#[cfg(test)]
mod tests {
    use super::super::cells::CELLS;
    use super::*;

    #[test]
    fn a_verdict_comes_back_as_it_was() {
        let (folder, cell) = (tempfile::tempdir().unwrap(), &CELLS[0]);
        let good = Verdict::Good { remarks: vec!["A06".into(), "T06".into()], around: None };
        for verdict in [good, Verdict::Failed { why: "check: two\nlines".into() }] {
            let outcome = Outcome { verdict, seconds: 1.5, tree: "abc".into() };
            keep(folder.path(), "2.23.4", cell, &outcome).unwrap();
            assert_eq!(last(folder.path(), "2.23.4", cell), outcome);
        }
        assert_eq!(last(folder.path(), "2.24.3", cell).verdict, Verdict::NotRun);
    }
}
