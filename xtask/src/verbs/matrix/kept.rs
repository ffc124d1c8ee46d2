//! What became of the runs of earlier starts: a line or two in a file for each cell, so that a few cells can be run
//! again after a change and the page still shows all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cells::Cell;
use super::judge::Verdict;
use super::table::Outcome;
use crate::cargo;
use crate::failure::{Context as _, Result};
use crate::process::capture;

/// The tree that is run, as git names it.
pub(super) fn tree() -> String {
    let mut git = Command::new("git");
    git.current_dir(cargo::root())
        .args(["describe", "--always", "--exclude=*"]);
    match capture(&mut git) {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "a tree without git".to_owned(),
    }
}

/// Keeps what became of a run.
pub(super) fn keep(folder: &Path, release: &str, cell: &Cell, outcome: &Outcome) -> Result<()> {
    let path = file(folder, release, cell);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).or_fail(|| format!("create {}", parent.display()))?;
    }
    std::fs::write(&path, text(outcome)).or_fail(|| format!("write {}", path.display()))
}

/// What became of the last run, if there was one.
pub(super) fn last(folder: &Path, release: &str, cell: &Cell) -> Outcome {
    let text = std::fs::read_to_string(file(folder, release, cell)).unwrap_or_default();
    read(&text, release, cell).unwrap_or(Outcome {
        verdict: Verdict::NotRun,
        took: Duration::ZERO,
        tree: String::new(),
    })
}

fn file(folder: &Path, release: &str, cell: &Cell) -> PathBuf {
    folder.join(release).join(format!("{}.verdict", cell.name))
}

/// The tree, milliseconds, `good` with its remarks or `failed`, and why.
fn text(outcome: &Outcome) -> String {
    let (verdict, why) = match &outcome.verdict {
        Verdict::Good { remarks, .. } => (format!("good {}", remarks.join(" ")), ""),
        Verdict::Failed(why) => ("failed".to_owned(), why.as_str()),
        Verdict::Impossible(_) | Verdict::NotRun => (String::new(), ""),
    };
    let took = outcome.took.as_millis();
    format!("{}\n{took}\n{verdict}\n{why}\n", outcome.tree)
}

/// The reasons are those of the list of cells, as it is now.
fn read(text: &str, release: &str, cell: &Cell) -> Option<Outcome> {
    let exception = cell.exception(release);
    if let Some(exception) = exception.filter(|exception| exception.instead.is_none()) {
        return Some(Outcome {
            verdict: Verdict::Impossible(exception.why),
            took: Duration::ZERO,
            tree: String::new(),
        });
    }
    let mut lines = text.splitn(4, '\n');
    let tree = lines.next()?.to_owned();
    let took = Duration::from_millis(lines.next()?.parse().ok()?);
    let mut words = lines.next()?.split_whitespace();
    let verdict = match words.next()? {
        "good" => Verdict::Good {
            remarks: words.map(str::to_owned).collect(),
            around: exception.map(|exception| exception.why),
        },
        _ => Verdict::Failed(lines.next()?.trim().to_owned()),
    };
    Some(Outcome {
        verdict,
        took,
        tree,
    })
}

#[cfg(test)]
mod tests {
    use super::super::cells::CELLS;
    use super::*;

    #[test]
    fn a_verdict_comes_back_as_it_was() {
        let cell = &CELLS[0];
        let good = Verdict::Good {
            remarks: vec!["A06".into(), "T06".into()],
            around: None,
        };
        for verdict in [good, Verdict::Failed("check: two\nlines".into())] {
            let outcome = Outcome {
                verdict,
                took: Duration::from_millis(1234),
                tree: "abc".into(),
            };
            let back = read(&text(&outcome), "2.23.4", cell).unwrap();
            assert_eq!(text(&back), text(&outcome));
        }
        assert!(read("", "2.23.4", cell).is_none());
    }
}
