//! `docs/REFERENCE.md` lists the plugin's variables as `src/config/variables.rs` defines them.

use std::fmt::Write as _;
use std::path::Path;

use nccl_profiler_otf2::config::VARIABLES;

const PAGE: &str = "docs/REFERENCE.md";
const BEGIN: &str = "<!-- variables -->\n";
const END: &str = "<!-- end variables -->";

/// Set to write the table into the page instead of comparing.
const UPDATE: &str = "UPDATE_DOCS";

#[test]
fn the_page_lists_the_variables_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the page has the first marker");
    let (_, after) = rest.split_once(END).expect("the page has the second marker");
    let current = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &current).expect("the page can be written");
        return;
    }
    assert!(
        page == current,
        "{PAGE} differs from src/config/variables.rs: {UPDATE}=1 cargo test --test environment_page"
    );
}

fn table() -> String {
    let mut table = String::from("| variable | values | default | what it does |\n|---|---|---|---|\n");
    for variable in VARIABLES {
        let columns = [variable.values, variable.default, variable.doc, variable.name];
        for text in columns {
            let fits = !text.is_empty() && !text.contains(['|', '\n']);
            assert!(fits, "{}: {text:?} breaks the table", variable.name);
        }
        let [values, default, doc, name] = columns;
        writeln!(table, "| `{name}` | {values} | {default} | {doc} |").expect("a string takes everything");
    }
    table
}
