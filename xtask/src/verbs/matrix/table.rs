//! The table, for the terminal and for the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cells::Cell;

const FORMAT: u32 = 1;

pub(super) struct Table<'a> {
    pub(super) releases: &'a [String],
    pub(super) rows: Vec<(&'static Cell, Vec<Outcome>)>,
}

#[derive(PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
    pub(super) tree: String,
}

#[derive(PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum Verdict {
    Good {
        /// The rules of `check` that had remarks.
        remarks: Vec<String>,
        around: Option<String>,
    },
    Impossible {
        why: String,
    },
    Failed {
        why: String,
    },
    NotRun,
}

impl Outcome {
    pub(super) fn not_run(verdict: Verdict) -> Self {
        Self { verdict, seconds: 0.0, tree: String::new() }
    }
}

impl Verdict {
    pub(super) fn line(&self) -> String {
        match self {
            Self::Good { .. } => self.cell(true).replace('\\', ""),
            Self::Impossible { why } => format!("not to be had: {why}"),
            Self::Failed { why } => format!("FAIL: {why}"),
            Self::NotRun => "not run".to_owned(),
        }
    }

    /// The text of the table's cell: with the rules that had remarks on the page, with their number in the terminal.
    fn cell(&self, on_page: bool) -> String {
        match self {
            Self::Good { remarks, around } => {
                let star = match around {
                    None => "",
                    Some(_) if on_page => "\\*",
                    Some(_) => "*",
                };
                match remarks.len() {
                    0 => format!("ok{star}"),
                    _ if on_page => format!("ok{star} {}", remarks.join(" ")),
                    number => format!("ok/{number}{star}"),
                }
            }
            Self::Impossible { .. } => "—".to_owned(),
            Self::Failed { .. } => "FAIL".to_owned(),
            Self::NotRun => "·".to_owned(),
        }
    }
}

impl Table<'_> {
    pub(super) fn sums(&self) -> (usize, usize, usize) {
        let mut sums = (0, 0, 0);
        for outcome in self.rows.iter().flat_map(|(_, row)| row) {
            match &outcome.verdict {
                Verdict::Good { .. } => sums.0 += 1,
                Verdict::Impossible { .. } => sums.1 += 1,
                Verdict::Failed { .. } => sums.2 += 1,
                Verdict::NotRun => {}
            }
        }
        sums
    }

    /// The table in columns, followed by the reasons for all outcomes other than `ok`.
    pub(super) fn text(&self) -> String {
        let mut text = format!("   {:16}", "");
        for release in self.releases {
            let _ = write!(text, "{release:>8}");
        }
        for (cell, row) in &self.rows {
            let _ = write!(text, "\n   {:16}", cell.name);
            for outcome in row {
                let _ = write!(text, "{:>8}", outcome.verdict.cell(false));
            }
        }
        text.push_str("\n   ok/2: check remarked on two rules; *: steered around a defect of NCCL\n");
        for note in self.notes() {
            let _ = writeln!(text, "   {note}");
        }
        text
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = self.trees();
        let column = |place: usize| self.rows.iter().map(move |(_, row)| row[place].verdict.cell(true));
        let places: Vec<usize> = (0..self.releases.len()).collect();
        let groups: Vec<&[usize]> = places.chunk_by(|one, next| column(*one).eq(column(*next))).collect();
        let heads = groups.iter().map(|group| group.iter().map(|place| self.releases[*place].as_str()).collect());
        let heads: Vec<String> = heads.map(|releases: Vec<&str>| releases.join(", ")).collect();
        let _ = write!(text, "| cell | {} |\n| --- |{}", heads.join(" | "), " --- |".repeat(groups.len()));
        // Cells of the same results share a row.
        let mut lines: Vec<(String, Vec<String>)> = Vec::new();
        for (cell, row) in &self.rows {
            let words: Vec<String> = groups.iter().map(|group| row[group[0]].verdict.cell(true)).collect();
            let (words, cell) = (words.join(" | "), format!("`{}`: {}", cell.name, cell.about));
            match lines.iter_mut().find(|(known, _)| *known == words) {
                Some((_, cells)) => cells.push(cell),
                None => lines.push((words, vec![cell])),
            }
        }
        for (words, cells) in lines {
            let _ = write!(text, "\n| {} | {words} |", cells.join("<br>"));
        }
        text.push('\n');
        let notes = self.notes();
        if !notes.is_empty() {
            text.push_str("\nWhat is not `ok`, and what was steered around (`*`):\n\n");
            for note in notes {
                text.push_str(&wrapped(&note));
            }
        }
        text
    }

    /// For programs: an object with an entry in `runs` for each cell of the table.
    pub(super) fn json(&self) -> String {
        let mut runs = Vec::new();
        for (cell, row) in &self.rows {
            for (release, outcome) in self.releases.iter().zip(row) {
                let (verdict, remarks, why): (_, &[String], _) = match &outcome.verdict {
                    Verdict::Good { remarks, around } => ("good", remarks, around.as_deref().unwrap_or("")),
                    Verdict::Impossible { why } => ("impossible", &[], why.as_str()),
                    Verdict::Failed { why } => ("failed", &[], why.as_str()),
                    Verdict::NotRun => ("not run", &[], ""),
                };
                let seconds = (outcome.seconds * 10.0).round() / 10.0;
                runs.push(json!({
                    "cell": cell.name, "release": release, "verdict": verdict, "remarks": remarks, "why": why,
                    "seconds": seconds,
                }));
            }
        }
        format!("{:#}\n", json!({ "format": FORMAT, "runs": runs }))
    }

    /// The trees that were run. Cells may have been run at different times; cells never run add nothing.
    fn trees(&self) -> String {
        let outcomes = || self.rows.iter().flat_map(|(_, row)| row);
        let trees: BTreeSet<String> = outcomes()
            .filter(|outcome| !outcome.tree.is_empty())
            .map(|outcome| format!("`{}`", outcome.tree))
            .collect();
        let trees: Vec<String> = trees.into_iter().collect();
        let mut text = format!("Runs of {}.", trees.join(", "));
        if outcomes().any(|outcome| matches!(outcome.verdict, Verdict::NotRun)) {
            text.push_str(" `·` has not been run yet and says nothing.");
        }
        text.push_str("\n\n");
        text
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
        for (cell, row) in &self.rows {
            for (release, outcome) in self.releases.iter().zip(row) {
                let note = match &outcome.verdict {
                    Verdict::Good { around: None, .. } | Verdict::NotRun => continue,
                    Verdict::Good { around: Some(why), .. } => {
                        let instead = cell.exception(release).and_then(|exception| exception.instead);
                        format!("`{}`*, with `{}`: {why}", cell.name, instead.unwrap_or_default())
                    }
                    Verdict::Impossible { why } => format!("`{}`, not to be had: {why}", cell.name),
                    Verdict::Failed { why } => format!("`{}`, FAIL: {why}", cell.name),
                };
                match notes.iter_mut().find(|(text, _)| *text == note) {
                    Some((_, releases)) => releases.push(release),
                    None => notes.push((note, vec![release])),
                }
            }
        }
        notes.into_iter().map(|(note, releases)| format!("{note} ({})", releases.join(", "))).collect()
    }
}

/// As a list item, in lines of at most 120 columns.
fn wrapped(note: &str) -> String {
    let (mut text, mut columns) = ("*".to_owned(), 1);
    for word in note.split(' ') {
        let width = 1 + word.chars().count();
        if columns + width > 120 {
            text.push_str("\n ");
            columns = 1;
        }
        columns += width;
        text = text + " " + word;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::cells::CELLS;
    use super::*;

    #[test]
    fn what_failed_is_in_the_table_with_its_reason() {
        let releases = ["1.0.0".to_owned(), "1.1.0".to_owned(), "1.2.0".to_owned()];
        let row = [
            Verdict::Good { remarks: vec!["A06".into(), "T06".into()], around: Some("slow".into()) },
            Verdict::Failed { why: "so".into() },
            Verdict::Impossible { why: "never".into() },
        ];
        let row = row.map(|verdict| Outcome { verdict, seconds: 1.26, tree: "abc".into() }).into();
        let table = Table { releases: &releases, rows: vec![(&CELLS[0], row)] };
        assert_eq!(table.sums(), (1, 1, 1));
        for text in [table.text(), table.markdown()] {
            for wanted in ["FAIL", "FAIL: so (1.1.0)", "never (1.2.0)", "slow (1.0.0)"] {
                assert!(text.contains(wanted), "{wanted}: {text}");
            }
        }
        assert!(table.text().contains(" ok/2*"), "{}", table.text());
        assert!(table.markdown().contains("| ok\\* A06 T06 |"), "{}", table.markdown());
        let note = wrapped(&"word ".repeat(30));
        assert!(note.lines().all(|line| line.chars().count() <= 120) && note.contains("word\n  word"));
        let json: serde_json::Value = serde_json::from_str(&table.json()).unwrap();
        let run = &json["runs"][1];
        assert_eq!((&run["verdict"], &run["why"], &run["seconds"]), (&json!("failed"), &json!("so"), &json!(1.3)));
    }
}
