//! Checks pages of `docs/` against tables of this crate.

use std::fmt::Write as _;

use crate::job::unreported_events::UNREPORTED_EVENTS;
use nccl_events::Table;
use nccl_events::schema::{Counts, GpuCounts, KindCounts};
use whole_plugin::{built, kinds, pages};

#[test]
fn the_page_lists_the_unreported_of_the_table() {
    pages::compare("RELEASES.md", "releases", &tables());
}

fn tables() -> String {
    let mut text = String::from("| interface | new events |\n|---|---|\n");
    let mut last: &[&str] = &[];
    for table in Table::ALL {
        let kinds = kinds::kinds_of_table(u32::from(table.number()));
        let new: Vec<&str> = kinds.iter().copied().filter(|kind| !last.contains(kind)).collect();
        if !new.is_empty() {
            writeln!(text, "| v{} | {} |", table.number(), new.join(", ")).expect("a string");
        }
        last = kinds;
    }
    text.push_str("\n| not seen | releases, recorded | why |\n|---|---|---|\n");
    for spot in UNREPORTED_EVENTS {
        for words in [spot.unseen, spot.why] {
            let fits = !words.is_empty() && !words.contains(['|', '\n']);
            assert!(fits, "{words:?} breaks the table");
        }
        let (unseen, releases, why) = (spot.unseen, spot.releases(), spot.why);
        let recorded = spot.when.to_string();
        let recorded = if recorded == "any" { String::new() } else { format!(", {recorded}") };
        writeln!(text, "| {unseen} | {releases}{recorded} | {why} |").expect("a string");
    }
    text
}

/// The names in a table's first column; each row must have a description.
fn names(table: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    // The first row is the heading.
    let rows = rows.skip(1).flat_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let &[name, what] = &cells[..] else {
            panic!("two columns: {row}");
        };
        assert!(what.len() > 3, "nothing is said of {name}");
        name.split(", ").map(|name| name.trim_matches('`').to_owned())
    });
    rows.collect()
}

/// The text between two markers of the page of counters.
fn section(name: &str) -> String {
    let page = std::fs::read_to_string(built::root().join("docs/REFERENCE.md")).expect("the page is there");
    let (_, rest) = page.split_once(&format!("<!-- {name} -->\n")).expect("the first marker");
    let (tables, _) = rest.split_once(&format!("<!-- end {name} -->")).expect("the last marker");
    tables.to_owned()
}

#[test]
fn the_page_lists_all_counters() {
    let gpus = GpuCounts::default();
    assert!(gpus.named().map(|(name, _)| name).eq(names(&section("gpu counters"))));
    let tables = section("counters");
    let (kinds_table, others) = tables.split_once("\n\n").expect("two tables");
    let kinds = KindCounts::default();
    assert!(kinds.named().map(|(name, _)| name).eq(names(kinds_table)));
    // The first is counted by ids, not by the fate of the events.
    let counts = Counts::default();
    assert!(["STARTED"].into_iter().chain(counts.named().map(|(name, _)| name)).eq(names(others)));
}
