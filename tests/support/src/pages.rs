//! Tables in pages of `docs/` that are generated from code.

use std::fs;

use crate::built::root;
use parking_lot::Mutex;

/// Held while a page is compared: the tests of a program would lose each other's table.
static PAGES: Mutex<()> = Mutex::new(());

/// Compares the text between `<!-- NAME -->` and `<!-- end NAME -->` in a page; `UPDATE_DOCS=1` rewrites it instead.
pub fn compare(page: &str, name: &str, table: &str) {
    let _held = PAGES.lock();
    let path = root().join("docs").join(page);
    let text = fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) = text.split_once(&begin).expect("the first marker");
    let (_, after) = rest.split_once(&end).expect("the last marker");
    let current = format!("{before}{begin}{table}{end}{after}");
    match std::env::var_os("UPDATE_DOCS") {
        Some(_) => fs::write(&path, current).expect("the page can be written"),
        None => assert!(text == current, "{} differs: run this test with UPDATE_DOCS=1", path.display()),
    }
}
