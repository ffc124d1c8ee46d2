//! What an archive says of itself, as readers get it, and when archives are merged.

use std::collections::BTreeSet;

use schema::{Grammar as _, Lines, Property, Statements};

fn properties(said: &[(&str, &str)]) -> Vec<Property> {
    said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(said: &[(&str, &str)]) -> Statements {
    Statements::read(&properties(said))
}

/// What both say together, whichever comes first; lists by line.
fn merged(one: &[(&str, &str)], other: &[(&str, &str)]) -> Vec<Property> {
    let sorted = |said: Statements| {
        let mut properties = said.write();
        for (_, value) in &mut properties {
            let mut lines: Vec<&str> = value.lines().collect();
            lines.sort_unstable();
            *value = lines.join("\n");
        }
        properties.sort();
        properties
    };
    let together = sorted(read(one).merged(&read(other)));
    assert_eq!(together, sorted(read(other).merged(&read(one))), "the order of archives does not matter");
    together
}

const SAID: [(&str, &str); 14] = [
    ("NCCL::CHAIN::ERRORS", "4"),
    ("NCCL::CLOCK::ALIGNMENT::VIOLATIONS", "0"),
    ("NCCL::COUNT::COLL::LOST", "1"),
    ("NCCL::COUNT::COLL::SEEN", "3"),
    ("NCCL::COUNT::COLL::WRITTEN", "0"),
    ("NCCL::COUNT::CLAMPED", "6"),
    ("NCCL::COUNT::STARTED", "12"),
    ("NCCL::GPU::KERNELS", "5"),
    ("NCCL::GPU::CLOCKS::RESIDUAL_NS", "30"),
    ("NCCL::MISMATCH::ROOT", "2"),
    ("NCCL::MISMATCH::ROOT::LIST", "world: one\nworld: two"),
    ("NCCL::OF::A::LATER::VERSION", "x"),
    ("NCCL::PROBLEM_LIST", "a\nb\nand more: 7"),
    ("NCCL::PROBLEMS", "9"),
];

#[test]
fn what_was_read_is_written() {
    let said = read(&SAID);
    assert_eq!((said.counts.clamped, said.gpu_counts.kernels, said.mismatch_root.number.get()), (6, 5, 2));
    assert_eq!(said.problems.lines.len(), 9, "those that did not fit into the anchor are known");
    assert_eq!((said.bad.len(), said.unknown.len()), (0, 1));
    let (mut written, mut wanted) = (said.write(), properties(&SAID));
    written.sort();
    wanted.sort();
    assert_eq!(written, wanted);
}

#[test]
fn what_breaks_its_grammar_is_kept_apart() {
    let said = read(&[
        ("NCCL::RANKS_MISSING", "two"),
        ("NCCL::COUNT::COLL::LOST", "-1"),
        ("NCCL::CHAIN::ERRORS", ""),
        ("NCCL::JOB", "17"),
        ("OTF2::MPI_COMMUNICATION_COMPLETE", "true"),
    ]);
    let bad: Vec<&str> = said.bad.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(bad, ["NCCL::RANKS_MISSING", "NCCL::COUNT::COLL::LOST", "NCCL::CHAIN::ERRORS"]);
    assert_eq!((said.job, said.unknown), (Lines::of(["17"]), Vec::new()));
}

#[test]
fn a_line_break_stays_in_its_entry() {
    let lines = Lines::of(["one\ntwo", "three"]);
    assert_eq!(Lines::parse(&lines.text()), Some(lines));
}

/// Of two archives, by name: the values of a property, and what it is when they are merged.
#[test]
fn values_are_merged_by_what_they_mean() {
    const LIST: &str = "NCCL::CLOCK::ALIGNMENT::LIST";
    type Row = (&'static str, Option<&'static str>, Option<&'static str>, Option<&'static str>);
    let rows: [Row; 18] = [
        ("NCCL::GPU::KERNELS", Some("5"), Some("5"), Some("10")),
        ("NCCL::CHAIN::ERRORS", Some("2"), Some("1"), Some("3")),
        ("NCCL::SCOREP::CALLS", Some("8"), None, Some("8")),
        ("NCCL::RECORDS", Some("7"), None, Some("7")),
        // The latest moment, and the largest error.
        (
            "NCCL::FLIGHT::COMPLETE_FROM",
            Some("1764000000000000000"),
            Some("1764000000000000009"),
            Some("1764000000000000009"),
        ),
        ("NCCL::CLOCK::RESIDUAL_NS", Some("2"), Some("3"), Some("3")),
        // Parts and hosts are counted once; a fingerprint and an uncertainty hold for one archive.
        ("NCCL::PARTS", Some("a\nb"), Some("b\nc"), Some("a\nb\nc")),
        ("NCCL::PARTS::NUMBER", Some("2"), Some("2"), Some("3")),
        ("NCCL::PARTS::FINGERPRINT", Some("1234567890123456"), Some("6543210987654321"), None),
        (
            LIST,
            Some("node1: reference\nnode2: bounded"),
            Some("node2: reference\nnode3: bounded"),
            Some("node1: reference\nnode2: bounded\nnode2: reference\nnode3: bounded"),
        ),
        ("NCCL::CLOCK::ALIGNMENT::HOSTS", Some("2"), Some("2"), Some("3")),
        ("NCCL::CLOCK::ALIGNMENT::GROUPS", Some("1"), Some("1"), Some("2")),
        ("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", Some("900"), Some("900"), None),
        // A sum with what is not known is not known.
        ("NCCL::COUNT::STARTED", Some("12"), None, None),
        // Lists have each line once, and the number of lines that were cut.
        ("NCCL::PROBLEM_LIST", Some("a\nb\nand more: 7"), Some("b\nc"), Some("a\nand more: 7\nb\nc")),
        ("NCCL::PROBLEMS", Some("9"), Some("2"), Some("10")),
        ("NCCL::JOB", Some("17"), Some("17"), Some("17")),
        ("NCCL::LATER", None, Some("x"), Some("x")),
    ];
    let one: Vec<(&str, &str)> = rows.iter().filter_map(|row| Some((row.0, row.1?))).collect();
    let other: Vec<(&str, &str)> = rows.iter().filter_map(|row| Some((row.0, row.2?))).collect();
    let merged = merged(&one, &other);
    for (name, .., wanted) in rows {
        let found = merged.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(found, wanted, "{name}");
    }
}

/// `NCCL::A::{B, C}::D` as two names.
fn each(name: &str) -> Vec<String> {
    let Some((start, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let (some, end) = rest.split_once('}').expect("a closing brace");
    some.split(", ").flat_map(|it| each(&format!("{start}{it}{end}"))).collect()
}

/// The names in a cell of the page; `…::LIST` stands for what is before it, with this end.
fn names(cell: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in cell.split('`').skip(1).step_by(2) {
        names.extend(match name.strip_prefix('…') {
            Some(end) => names.iter().map(|name| format!("{name}{end}")).collect(),
            None => each(name),
        });
    }
    names
}

/// The names in a column of the table of a section of the page.
fn listed(section: &str, column: usize) -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/REFERENCE.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let (_, section) = page.split_once(&format!("## {section}\n")).expect("a section");
    let (section, _) = section.split_once("\n## ").expect("a next section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").nth(column));
    cells.filter(|cell| cell.starts_with('`')).flat_map(names).collect()
}

#[test]
fn the_page_lists_the_properties_of_definitions() {
    let listed = listed("4. Location and location group properties", 1);
    // Others are the host's and the device's own, under names without a prefix.
    let listed: Vec<&str> = listed.iter().map(String::as_str).filter(|name| name.starts_with("NCCL::")).collect();
    let mut declared = schema::definition::NAMES.to_vec();
    declared.sort_unstable();
    assert_eq!(listed, declared);
}

#[test]
fn the_page_lists_the_properties() {
    let listed = listed("3. Archive properties", 0);
    // Families of counters have pages and tests of their own; the checksum is that of `otf2`.
    let is_family =
        |name: &&String| name.ends_with('…') || name.starts_with("NCCL::CHAIN::") || name.contains("OTF2::");
    let listed: Vec<&str> = listed.iter().filter(|name| !is_family(name)).map(String::as_str).collect();
    let is_open =
        |name: &&str| ["CHAIN", "SCOREP", "COUNT"].iter().any(|it| name.starts_with(&format!("NCCL::{it}::")));
    let mut declared: Vec<&str> = Statements::NAMES.iter().copied().filter(|name| !is_open(name)).collect();
    declared.sort_unstable();
    assert_eq!(listed, declared);
}

#[test]
fn everything_that_is_missing_makes_an_archive_incomplete() {
    for said in [
        ("NCCL::COUNT::COLL::LOST", "1"),
        ("NCCL::COUNT::STOPS_LOST", "1"),
        ("NCCL::COUNT::COMMUNICATORS_LOST", "1"),
        ("NCCL::COUNT::REMOVED", "1"),
        ("NCCL::FLIGHT::PROCESSES", "1"),
        ("NCCL::MEASUREMENT::LIST", "1: host:1: off, events Coll, by a signal"),
        ("NCCL::PARTS_LEFT_OUT", "part: no manifest"),
        ("NCCL::PROBLEMS", "1"),
        ("NCCL::RANKS_MISSING", "1"),
        ("NCCL::COLLECTIVES_UNMATCHED", "1"),
        ("NCCL::RANKS_BEHIND", "1"),
        ("NCCL::COLLECTIVES", "none"),
    ] {
        assert_eq!(read(&[said]).lacks().count(), 1, "{said:?}");
    }
    let whole = [("NCCL::COUNT::COLL::SEEN", "3"), ("NCCL::COLLECTIVES", "blocking"), ("NCCL::RECORDS", "9")];
    assert_eq!(read(&whole).lacks().count(), 0);
}
