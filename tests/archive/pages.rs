//! The tables of `docs/` are those of the code. With `UPDATE_DOCS=1` what is generated is written into the pages.

use std::fmt::Write as _;
use std::path::PathBuf;

use journal::part::process::nccl_version_text;
use nccl_events::gpu::GpuCount;
use nccl_profiler_otf2::config::VARIABLES;
use trace::internals::{BLIND_SPOTS, table_of};
use trace::links::gpu_work::Fates;
use trace::tables::counts::{Counts, KindCounts};
use whole_plugin::{built, kinds};

/// Set to write the tables into the pages instead of comparing.
const UPDATE: &str = "UPDATE_DOCS";

/// A page around what is between two markers in it.
struct Section {
    path: PathBuf,
    before: String,
    text: String,
    after: String,
}

fn section(page: &str, name: &str) -> Section {
    let path = built::root().join("docs").join(page);
    let all = std::fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) = all.split_once(&begin).expect("the first marker");
    let (text, after) = rest.split_once(&end).expect("the last marker");
    Section { path, before: before.to_owned() + &begin, text: text.to_owned(), after: end + after }
}

impl Section {
    /// The section is this text.
    fn is(self, text: &str) {
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&self.path, self.before + text + &self.after).expect("the page can be written");
            return;
        }
        let path = self.path.display();
        assert_eq!(self.text, text, "{path} differs from the code: {UPDATE}=1 cargo test --test archive pages");
    }
}

/// Texts that break no table.
fn cells<const N: usize>(texts: [&str; N]) -> [&str; N] {
    for text in texts {
        assert!(!text.is_empty() && !text.contains(['|', '\n']), "{text:?} breaks the table");
    }
    texts
}

#[test]
fn the_variables_of_the_plugin() {
    let mut table = String::from("| variable | values | default | what it does |\n|---|---|---|---|\n");
    for it in VARIABLES {
        let [values, default, doc, name] = cells([it.values, it.default, it.doc, it.name]);
        writeln!(table, "| `{name}` | {values} | {default} | {doc} |").expect("a string takes everything");
    }
    section("REFERENCE.md", "variables").is(&table);
}

/// The releases of the page.
const RELEASES: [u32; 12] =
    [22_304, 22_403, 22_501, 22_602, 22_605, 22_703, 22_707, 22_809, 22_907, 23_007, 23_102, 23_203];

#[test]
fn what_each_release_does_not_report() {
    let mut text = String::from("| release | table | events | what is not seen |\n|---|---|---|---|\n");
    for release in RELEASES {
        let table = u32::try_from(table_of(release)).expect("a table");
        let numbered = BLIND_SPOTS.iter().zip(1..);
        let numbers = numbered.filter(|(spot, _)| spot.is_in(release, release)).map(|(_, number)| number.to_string());
        let numbers = numbers.collect::<Vec<String>>().join(", ");
        let (name, kinds) = (nccl_version_text(release), kinds::of_table(table).join(", "));
        writeln!(text, "| {name} | v{table} | {kinds} | {numbers} |").expect("a string");
    }
    text.push_str("\n| | not seen | releases | recorded | why |\n|---|---|---|---|---|\n");
    for (spot, number) in BLIND_SPOTS.iter().zip(1..) {
        let [unseen, why] = cells([spot.unseen, spot.why]);
        let (releases, recorded) = (spot.releases(), spot.when);
        writeln!(text, "| {number} | {unseen} | {releases} | {recorded} | {why} |").expect("a string");
    }
    section("RELEASES.md", "releases").is(&text);
}

/// The names in a table's first column; each has something said of it.
fn names(table: &str) -> Vec<&str> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    // The first row is the heading.
    let rows = rows.skip(1).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let &[name, what] = &cells[..] else { panic!("two columns: {row}") };
        assert!(what.len() > 3, "nothing is said of {name}");
        name.trim_matches('`')
    });
    rows.collect()
}

#[test]
fn the_counters_of_an_archive() {
    let tables = section("REFERENCE.md", "counters").text;
    let (of_kinds, others) = tables.split_once("\n\n").expect("two tables");
    assert_eq!(names(of_kinds), KindCounts::default().named().map(|(name, _)| name));
    // Counted by the ids, not by what became of them.
    let mut expected = vec!["STARTED"];
    let counts = Counts::default();
    expected.extend(counts.named().iter().map(|&(name, _)| name));
    assert_eq!(names(others), expected);

    let of_gpus = section("REFERENCE.md", "gpu counters").text;
    let fates = Fates::default().named().map(|(name, _)| name);
    assert_eq!(names(&of_gpus), GpuCount::ALL.map(GpuCount::name).into_iter().chain(fates).collect::<Vec<_>>());
}
