//! The table for programs.

use std::fmt::Write as _;

use super::judge::Verdict;
use super::table::Table;

/// Of this description.
const FORMAT: u32 = 1;

impl Table<'_> {
    /// An object with an entry in `runs` for each cell of the table.
    pub(super) fn json(&self) -> String {
        let mut runs = Vec::new();
        for (cell, row) in &self.rows {
            for (release, outcome) in self.releases.iter().zip(row) {
                let (verdict, remarks, why): (_, &[String], _) = match &outcome.verdict {
                    Verdict::Good { remarks, around } => ("good", remarks, around.unwrap_or("")),
                    Verdict::Impossible(why) => ("impossible", &[], *why),
                    Verdict::Failed(why) => ("failed", &[], why.as_str()),
                    Verdict::NotRun => ("not run", &[], ""),
                };
                let remarks: Vec<String> = remarks.iter().map(|rule| quoted(rule)).collect();
                runs.push(format!(
                    "    {{\"cell\": {}, \"release\": {}, \"verdict\": \"{verdict}\", \"remarks\": [{}], \"why\": {}, \
                     \"seconds\": {:.1}}}",
                    quoted(cell.name),
                    quoted(release),
                    remarks.join(", "),
                    quoted(why),
                    outcome.took.as_secs_f64()
                ));
            }
        }
        format!(
            "{{\n  \"format\": {FORMAT},\n  \"runs\": [\n{}\n  ]\n}}\n",
            runs.join(",\n")
        )
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::cells::CELLS;
    use super::super::table::Outcome;
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_a_program_said_does_not_break_it() {
        let releases = ["1.0.0".to_owned()];
        let table = Table {
            releases: &releases,
            rows: vec![(
                &CELLS[0],
                vec![Outcome {
                    verdict: Verdict::Failed("\"a\\b\"\tc".into()),
                    took: Duration::from_millis(1500),
                    tree: String::new(),
                }],
            )],
        };
        let json = table.json();
        assert!(
            json.contains(r#""why": "\"a\\b\"\u0009c", "seconds": 1.5"#),
            "{json}"
        );
    }
}
