//! The table of variables in `docs/REFERENCE.md` is that of the code. `UPDATE_DOCS=1` writes it into the page.

use std::fmt::Write as _;
use std::path::PathBuf;

use settings::VARIABLES;
use whole_plugin::built;

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
