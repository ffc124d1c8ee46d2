//! The table of variables in `docs/REFERENCE.md` is what the code has (`UPDATE_DOCS=1` writes it into the page), and
//! links of all pages lead somewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use settings::VARIABLES;
use whole_plugin::{built, pages};

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
    pages::compare("REFERENCE.md", "variables", &table);
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let plain = heading.to_lowercase().replace(' ', "-");
    plain.chars().filter(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect()
}

#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let folders = ["", "docs", "docs/recipes"].map(|folder| built::root().join(folder));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.map(|entry| entry.expect("a file").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "md"));
    // Every second piece is a fenced block.
    let prose = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a page");
        (path.canonicalize().expect("a path"), text.split("```").step_by(2).collect::<String>())
    };
    let prose: BTreeMap<PathBuf, String> = paths.map(prose).collect();
    let leads = |from: &PathBuf, link: &str| {
        let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
        let to = if file.is_empty() { from.clone() } else { from.with_file_name("").join(file) };
        let Ok(to) = to.canonicalize() else { return false };
        let headings = |text: &String| {
            let mut headings =
                text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
            headings.any(|it| anchor(it.trim()) == fragment) || text.contains(&format!("<a id=\"{fragment}\">"))
        };
        fragment.is_empty() || prose.get(&to).is_none_or(headings)
    };
    let broken = |(page, text): (&PathBuf, &String)| {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let links = links.map(|(link, _)| link.to_owned()).filter(|link| !link.contains(':'));
        let broken = links.filter(|link| !leads(page, link));
        broken.map(|link| format!("{}: {link}", page.display())).collect::<Vec<_>>()
    };
    assert_eq!(prose.iter().flat_map(broken).collect::<Vec<_>>(), Vec::<String>::new());
}
