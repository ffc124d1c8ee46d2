//! Checks pages of `docs/` against tables of this crate.

use std::fmt::Write as _;

use crate::job::unreported_events::UNREPORTED_EVENTS;
use journal::part::nccl_version_text;
use nccl_events::Table;
use nccl_events::schema::{Counts, GpuCounts, KindCounts};
use whole_plugin::{built, kinds, pages};

/// The releases on the page.
const RELEASES: [u32; 12] =
    [22_304, 22_403, 22_501, 22_602, 22_605, 22_703, 22_707, 22_809, 22_907, 23_007, 23_102, 23_203];

#[test]
fn the_page_lists_the_unreported_of_the_table() {
    pages::compare("RELEASES.md", "releases", &tables());
}

fn tables() -> String {
    let mut text = String::from("| release | table | events | what is not seen |\n|---|---|---|---|\n");
    for release in RELEASES {
        let table = u32::from(Table::for_release(release).expect("a table").number());
        let spots = UNREPORTED_EVENTS.iter().zip(1..).filter(|(spot, _)| spot.is_in(release, release));
        let numbers = spots.map(|(_, number)| number.to_string()).collect::<Vec<String>>().join(", ");
        let (name, kinds) = (nccl_version_text(release), kinds::kinds_of_table(table).join(", "));
        writeln!(text, "| {name} | v{table} | {kinds} | {numbers} |").expect("a string");
    }
    text.push_str("\n| | not seen | releases | recorded | why |\n|---|---|---|---|---|\n");
    for (spot, number) in UNREPORTED_EVENTS.iter().zip(1..) {
        for words in [spot.unseen, spot.why] {
            let fits = !words.is_empty() && !words.contains(['|', '\n']);
            assert!(fits, "{words:?} breaks the table");
        }
        let (unseen, releases, why) = (spot.unseen, spot.releases(), spot.why);
        let recorded = spot.when;
        writeln!(text, "| {number} | {unseen} | {releases} | {recorded} | {why} |").expect("a string");
    }
    text
}

/// The names in a table's first column; each must have a description.
fn names(table: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    // The first row is the heading.
    let rows = rows.skip(1).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let &[name, what] = &cells[..] else {
            panic!("two columns: {row}");
        };
        assert!(what.len() > 3, "nothing is said of {name}");
        name.trim_matches('`').to_owned()
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
