//! The table of variables in `docs/REFERENCE.md` is what the code has. `UPDATE_DOCS=1` writes it into the page.

use std::fmt::Write as _;

use settings::VARIABLES;
use whole_plugin::built;

const BEGIN: &str = "<!-- variables -->\n";
const END: &str = "<!-- end variables -->";

/// Set to write the table into the page instead of comparing.
const UPDATE: &str = "UPDATE_DOCS";

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
    let path = built::root().join("docs/REFERENCE.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the first marker");
    let (_, after) = rest.split_once(END).expect("the last marker");
    let current = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &current).expect("the page can be written");
    } else {
        assert_eq!(page, current, "{UPDATE}=1 cargo test --test archive pages");
    }
}
