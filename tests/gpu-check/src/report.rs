//! What people and programs read: a table, and JSON.

use serde_json::{Value, json};

use crate::outcome::{Facts, Outcome};
use crate::plan::Check;

/// A check that was run, or not.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) number: Option<u8>,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
}

/// One line for a check that is over: its verdict, then why, or the facts that fit.
pub(crate) fn line(row: &Row) -> String {
    let number = row
        .number
        .map_or_else(String::new, |number| number.to_string());
    let told = match row.outcome.why() {
        "" => short(&row.outcome.facts),
        why => why.to_owned(),
    };
    format!(
        "{number:>2} {:<18} {:<8} {:>6.1} s  {told}",
        row.name,
        row.outcome.word(),
        row.seconds
    )
}

/// The facts in one line; what is long is in the JSON.
fn short(facts: &Facts) -> String {
    const MOST: usize = 110;
    let mut text = String::new();
    for (name, value) in facts {
        let piece = match value {
            Value::Object(_) | Value::Array(_) | Value::Null => continue,
            // Paths are long, and the same in many lines.
            Value::String(value) if value.starts_with('/') => continue,
            Value::String(value) => format!("{name}={value}"),
            value => format!("{name}={value}"),
        };
        if text.len() + piece.len() > MOST {
            break;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&piece);
    }
    text
}

/// How many there are of each verdict.
pub(crate) fn summary(rows: &[Row]) -> String {
    let count = |word: &str| rows.iter().filter(|row| row.outcome.word() == word).count();
    format!(
        "{} ok, {} failed, {} not possible here",
        count("ok"),
        count("failed"),
        count("not here")
    )
}

/// The whole as JSON.
pub(crate) fn json(about: &Facts, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "number": row.number,
                "verdict": row.outcome.word(),
                "why": row.outcome.why(),
                "seconds": (row.seconds * 10.0).round() / 10.0,
                "facts": row.outcome.facts,
            })
        })
        .collect();
    json!({ "format": 1, "about": about, "checks": rows })
}

/// All checks and what each settles.
pub(crate) fn list(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let number = check
            .number
            .map_or_else(String::new, |number| number.to_string());
        text.push_str(&format!(
            "{number:>2} {:<18} {}\n",
            check.name, check.settles
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_reason_or_the_facts() {
        let mut facts = Facts::new();
        facts.insert("kernels".to_owned(), json!(7));
        facts.insert("list".to_owned(), json!([1, 2]));
        facts.insert("library".to_owned(), json!("/x/libcupti.so.13"));
        let mut row = Row {
            name: "ids",
            number: Some(1),
            outcome: Outcome::of(&[], facts),
            seconds: 1.25,
        };
        assert!(line(&row).ends_with("s  kernels=7"), "{}", line(&row));
        row.outcome = Outcome::not_here("needs two GPUs");
        assert!(line(&row).ends_with("needs two GPUs"), "{}", line(&row));
        assert_eq!(summary(&[row]), "0 ok, 0 failed, 1 not possible here");
    }
}
