//! Properties of an archive as readers get them, and after merging archives.

use std::collections::BTreeSet;

use nccl_events::schema::{Grammar as _, Lines, Property, Statements};

fn properties(pairs: &[(&str, &str)]) -> Vec<Property> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(pairs: &[(&str, &str)]) -> Statements {
    Statements::read(&properties(pairs))
}

/// The merged properties, independent of the order, with sorted lists. Properties with empty texts are absent.
fn merged(one: &[(&str, &str)], other: &[(&str, &str)]) -> Vec<Property> {
    let read = |pairs: &[(&str, &str)]| {
        Statements::read(&properties(pairs).into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
    };
    let sorted = |statements: Statements| {
        let mut properties = statements.write();
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
    let statements = read(&SAID);
    assert_eq!(
        (statements.counts.clamped, statements.gpu_counts.kernels, statements.mismatch_root.number.get()),
        (6, 5, 2)
    );
    assert_eq!(statements.problems.lines.len(), 9, "those that did not fit into the anchor are known");
    assert_eq!((statements.bad.len(), statements.unknown.len()), (0, 1));
    let (mut written, mut wanted) = (statements.write(), properties(&SAID));
    written.sort();
    wanted.sort();
    assert_eq!(written, wanted);
}

#[test]
fn what_breaks_its_grammar_is_kept_apart() {
    let statements = read(&[
        ("NCCL::RANKS_MISSING", "two"),
        ("NCCL::COUNT::COLL::LOST", "-1"),
        ("NCCL::CHAIN::ERRORS", ""),
        ("NCCL::JOB", "17"),
        ("OTF2::MPI_COMMUNICATION_COMPLETE", "true"),
    ]);
    let bad: Vec<&str> = statements.bad.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(bad, ["NCCL::RANKS_MISSING", "NCCL::COUNT::COLL::LOST", "NCCL::CHAIN::ERRORS"]);
    assert_eq!((statements.job, statements.unknown), (Lines::from_entries(["17"]), Vec::new()));
}

#[test]
fn a_line_break_stays_in_its_entry() {
    let lines = Lines::from_entries(["one\ntwo", "three"]);
    assert_eq!(Lines::parse(&lines.text()), Some(lines));
}

/// The values of a property in two archives, and the merged value.
#[test]
fn values_are_merged_by_what_they_mean() {
    const LIST: &str = "NCCL::CLOCK::ALIGNMENT::LIST";
    let rows = [
        ("NCCL::GPU::KERNELS", "5", "5", "10"),
        ("NCCL::CHAIN::ERRORS", "2", "1", "3"),
        ("NCCL::SCOREP::CALLS", "8", "", "8"),
        ("NCCL::RECORDS", "7", "", "7"),
        // The latest time, and the largest error.
        ("NCCL::FLIGHT::COMPLETE_FROM", "1764000000000000000", "1764000000000000009", "1764000000000000009"),
        ("NCCL::CLOCK::RESIDUAL_NS", "2", "3", "3"),
        // Parts and hosts are counted once; a fingerprint and an uncertainty apply to a single archive.
        ("NCCL::PARTS", "a\nb", "b\nc", "a\nb\nc"),
        ("NCCL::PARTS::NUMBER", "2", "2", "3"),
        ("NCCL::PARTS::FINGERPRINT", "1234567890123456", "6543210987654321", ""),
        (LIST, "n1: reference\nn2: bounded", "n2: reference", "n1: reference\nn2: bounded\nn2: reference"),
        ("NCCL::CLOCK::ALIGNMENT::HOSTS", "2", "1", "2"),
        ("NCCL::CLOCK::ALIGNMENT::GROUPS", "1", "1", "2"),
        ("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "900", "900", ""),
        // A sum with an unknown number is unknown.
        ("NCCL::COUNT::STARTED", "12", "", ""),
        // A list has each line once, plus the number of lines that were cut.
        ("NCCL::PROBLEM_LIST", "a\nb\nand more: 7", "b\nc", "a\nand more: 7\nb\nc"),
        ("NCCL::PROBLEMS", "9", "2", "10"),
        ("NCCL::JOB", "17", "17", "17"),
        ("NCCL::LATER", "", "x", "x"),
    ];
    let one = rows.map(|(name, one, ..)| (name, one));
    let other = rows.map(|(name, _, other, _)| (name, other));
    let merged = merged(&one, &other);
    for (name, .., wanted) in rows {
        let found = merged.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(found.unwrap_or_default(), wanted, "{name}");
    }
}

/// Expands `NCCL::A::{B, C}::D` to two names.
fn each(name: &str) -> Vec<String> {
    let Some((start, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let (some, end) = rest.split_once('}').expect("a closing brace");
    some.split(", ").flat_map(|part| each(&format!("{start}{part}{end}"))).collect()
}

/// The names in a cell of the page; `…::LIST` stands for each name before it, with this suffix.
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

/// The names in a column of a section's table in the page.
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
fn the_page_lists_the_properties() {
    // Names without the prefix are properties of the host and the device themselves. Families of counters have pages
    // and tests of their own; the checksum belongs to `otf2`.
    let is_ours = |name: &&str| name.starts_with("NCCL::") && !name.ends_with('…');
    let is_open = |name: &&str| {
        ["NCCL::CHAIN::", "NCCL::SCOREP::", "NCCL::COUNT::"].iter().any(|prefix| name.starts_with(prefix))
    };
    for (section, column, declared) in [
        ("3. Archive properties", 0, Statements::NAMES),
        ("4. Location and location group properties", 1, nccl_events::schema::definition::NAMES),
    ] {
        let listed = listed(section, column);
        let listed: BTreeSet<&str> = listed.iter().map(String::as_str).filter(is_ours).collect();
        let declared = declared.iter().copied().collect();
        assert_eq!(listed.symmetric_difference(&declared).find(|name| !is_open(name)), None, "{section}");
    }
}

#[test]
fn everything_that_is_missing_makes_an_archive_incomplete() {
    for property in [
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
    ] {
        assert_eq!(read(&[property]).missing_data().count(), 1, "{property:?}");
    }
    let whole = [("NCCL::COUNT::COLL::SEEN", "3"), ("NCCL::LEVEL", "full"), ("NCCL::RECORDS", "9")];
    assert_eq!(read(&whole).missing_data().count(), 0);
}
