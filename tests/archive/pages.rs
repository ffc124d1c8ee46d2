//! The table of variables in `docs/REFERENCE.md` is what the code has (`UPDATE_DOCS=1` writes it into the page).

use std::fmt::Write as _;

use settings::VARIABLES;
use whole_plugin::pages;

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
    for variable in VARIABLES {
        let [values, default, doc, name] = cells([variable.values, variable.default, variable.doc, variable.name]);
        writeln!(table, "| `{name}` | {values} | {default} | {doc} |").expect("a string takes everything");
    }
    pages::compare("REFERENCE.md", "variables", &table);
}
