//! `docs/RELEASES.md` lists what each release does not show as `src/write/blind_spots.rs` says.

use std::fmt::Write as _;
use std::path::Path;

use journal::part::process::nccl_version_text;
use trace::internals::{BLIND_SPOTS, table_of};
use whole_plugin::kinds;

const PAGE: &str = "docs/RELEASES.md";
const BEGIN: &str = "<!-- releases -->\n";
const END: &str = "<!-- end releases -->";

/// Set to write the tables into the page instead of comparing.
const UPDATE: &str = "UPDATE_DOCS";

/// The releases of the page.
const RELEASES: [u32; 12] =
    [22_304, 22_403, 22_501, 22_602, 22_605, 22_703, 22_707, 22_809, 22_907, 23_007, 23_102, 23_203];

#[test]
fn the_page_lists_the_blind_spots_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the page has the first marker");
    let (_, after) = rest.split_once(END).expect("the page has the second marker");
    let current = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &current).expect("the page can be written");
        return;
    }
    assert!(
        page == current,
        "{PAGE} differs from src/write/blind_spots.rs: {UPDATE}=1 cargo test --test releases_page"
    );
}

fn tables() -> String {
    let mut text = String::from("| release | table | events | what is not seen |\n|---|---|---|---|\n");
    for release in RELEASES {
        let table = u32::try_from(table_of(release)).expect("a table");
        let numbered = BLIND_SPOTS.iter().zip(1..);
        let numbers = numbered.filter(|(spot, _)| spot.is_in(release, release)).map(|(_, number)| number.to_string());
        let numbers: Vec<String> = numbers.collect();
        let (name, kinds, numbers) =
            (nccl_version_text(release), kinds::of_table(table).join(", "), numbers.join(", "));
        writeln!(text, "| {name} | v{table} | {kinds} | {numbers} |").expect("a string");
    }
    text.push_str("\n| | not seen | releases | recorded | why |\n|---|---|---|---|---|\n");
    for (spot, number) in BLIND_SPOTS.iter().zip(1..) {
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
