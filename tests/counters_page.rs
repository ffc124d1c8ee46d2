//! `docs/REFERENCE.md` §7 lists the counters that an archive can have, as `src/write/counts.rs` and those of GPUs name
//! them.

use std::path::Path;

use nccl_events::gpu::GpuCount;
use trace::links::gpu_work::Fates;
use trace::tables::counts::{Counts, KindCounts};

const PAGE: &str = "docs/REFERENCE.md";
const BEGIN: &str = "<!-- counters -->\n";
const END: &str = "<!-- end counters -->";
const GPU_BEGIN: &str = "<!-- gpu counters -->\n";
const GPU_END: &str = "<!-- end gpu counters -->";

/// The names in a table's first column; each has something said of it.
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

/// What is between two markers of the page.
fn section(begin: &str, end: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (_, rest) = page.split_once(begin).expect("the first marker");
    let (tables, _) = rest.split_once(end).expect("the last marker");
    tables.to_owned()
}

#[test]
fn the_page_lists_the_counters_of_gpus() {
    let recorded = GpuCount::ALL.map(GpuCount::name);
    let drawn = Fates::default().named().map(|(name, _)| name);
    let there: Vec<&str> = recorded.into_iter().chain(drawn).collect();
    assert_eq!(names(&section(GPU_BEGIN, GPU_END)), there);
}

#[test]
fn the_page_lists_the_counters_of_the_table() {
    let tables = section(BEGIN, END);
    let (of_kinds, others) = tables.split_once("\n\n").expect("two tables");
    let of_kinds_there: Vec<&str> = KindCounts::default().named().map(|(name, _)| name).into();
    assert_eq!(names(of_kinds), of_kinds_there);
    // Counted by the ids, not by what became of them.
    let mut others_there = vec!["STARTED"];
    let counts = Counts::default();
    others_there.extend(counts.named().iter().map(|&(name, _)| name));
    assert_eq!(names(others), others_there);
}
