//! Links between pages: the file is there, and so is the heading.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use whole_plugin::built::root;
use whole_plugin::process::run;

/// The text of a page without its blocks of code.
fn text(page: &Path) -> String {
    let whole = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let parts: Vec<&str> = whole.split("\n```").collect();
    parts.into_iter().step_by(2).collect::<Vec<&str>>().join("\n")
}

/// What a heading is called in a link, as forges and mdBook do it.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn anchors(page: &Path) -> BTreeSet<String> {
    let text = text(page);
    let marks = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    text.lines().filter(|line| line.starts_with('#')).map(anchor).chain(marks).collect()
}

/// Targets of links and pictures that are no addresses.
fn targets(page: &Path) -> Vec<String> {
    let text = text(page);
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '\n']).next());
    ends.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut listed = Command::new("git");
    listed.current_dir(root()).args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let listed = run(&mut listed).with_code(0).stdout;
    let pages: Vec<PathBuf> = listed.lines().map(|page| root().join(page)).filter(|page| page.exists()).collect();
    let mut broken = Vec::new();
    let mut links = 0;
    for page in &pages {
        for target in targets(page) {
            links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let to = if file.is_empty() { page.clone() } else { page.parent().unwrap_or(page).join(file) };
            let is_there = to.exists() && (heading.is_empty() || anchors(&to).contains(heading));
            if !is_there {
                broken.push(format!("{}: {target}", page.strip_prefix(root()).unwrap_or(page).display()));
            }
        }
    }
    assert!(links > 100, "only {links} links were found");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}
