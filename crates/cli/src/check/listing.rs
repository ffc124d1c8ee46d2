//! The list of the rules.

use anyhow::Result;

use crate::print::{self, Text};
use crate::table::{Side, Table};

use super::rules::Rule;

/// Prints all rules, as a table or as JSON.
pub(crate) fn print(as_json: bool) -> Result<()> {
    if as_json {
        let rules = Rule::ALL.iter().map(|rule| {
            serde_json::json!({
                "number": rule.number(),
                "severity": rule.severity(),
                "scope": rule.scope(),
                "sentence": rule.sentence(),
            })
        });
        return print::json(&rules.collect::<Vec<_>>());
    }
    let mut table = Table::new(&[
        ("rule", Side::Left),
        ("severity", Side::Left),
        ("archives", Side::Left),
        ("what holds", Side::Left),
    ]);
    for rule in Rule::ALL {
        table.row(vec![
            rule.number().to_owned(),
            rule.severity().name().to_owned(),
            rule.scope().name().to_owned(),
            rule.sentence().to_owned(),
        ]);
    }
    let mut text = Text::default();
    table.print(&mut text);
    print::text(&text)
}
