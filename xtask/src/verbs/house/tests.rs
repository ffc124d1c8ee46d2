use super::limits::{Exception, Limit};
use super::*;

const MANIFEST: &str = "[package]\nname = \"small\"\nedition = \"2024\"\n";

fn look_at(files: &[(&str, &str)]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let git = std::process::Command::new("git").arg("init").arg("-q").current_dir(&folder).status();
    assert!(git.unwrap().success());
    for (file, text) in files.iter().chain(&[("Cargo.toml", MANIFEST)]) {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    look(folder.path(), &limits(), &[]).unwrap()
}

fn limits() -> Vec<Limit> {
    LIMITS.iter().map(|limit| Limit { over: 0, ..*limit }).collect()
}

fn broken(files: &[(&str, &str)]) -> Vec<Rule> {
    look_at(files).broken()
}

#[test]
fn modules_that_import_each_other_are_a_circle() {
    let lib = ("src/lib.rs", "mod a;\nmod b;\nmod c;\n");
    let a = ("src/a.rs", "use crate::b::B;\npub(crate) struct A(B);\n");
    let b = ("src/b.rs", "pub(crate) struct B;\nfn f() { super::c::g() }\n");
    let c = ("src/c.rs", "pub(crate) fn g() {}\n");
    assert_eq!(broken(&[lib, a, b, c]), []);
    for back in [
        "use crate::a::A;\n",
        "use crate::{a::{self as first, A}};\n",
        "fn h() -> crate::a::A { todo!() }\n",
        "fn h() { println!(\"{}\", crate::a::A::new()) }\n",
        "use crate::*;\nfn h() { a::A::new() }\n",
        "mod inner { use super::super::a::A; }\n",
    ] {
        let c = ("src/c.rs", &*format!("pub(crate) fn g() {{}}\n{back}"));
        let report = look_at(&[lib, a, b, c]);
        assert_eq!(report.broken(), [Rule::Circles], "{back}");
        let text = report.text(false);
        assert!(text.contains("in small: a, b, c") && text.contains("src/a.rs:1 crate::b::B"), "{text}");
    }
}

#[test]
fn a_circle_of_rooms_needs_no_circle_of_files() {
    let files = [
        ("src/lib.rs", "mod a;\nmod b;\n"),
        ("src/a/mod.rs", "mod high;\npub(crate) mod low;\n"),
        ("src/a/high.rs", "use crate::b::B;\n"),
        ("src/a/low.rs", "pub(crate) struct Low;\n"),
        ("src/b.rs", "pub(crate) struct B(crate::a::low::Low);\n"),
    ];
    assert_eq!(broken(&files), [Rule::Circles]);
}

#[test]
fn a_reexport_is_an_import_of_what_it_names() {
    let lib = ("src/lib.rs", "mod a;\nmod b;\n");
    let facade = ("src/a/mod.rs", "mod x;\nmod y;\npub(crate) use x::X;\npub(crate) use y::*;\n");
    let x = ("src/a/x.rs", "pub(crate) struct X;\n");
    let y = ("src/a/y.rs", "pub(crate) struct Y(super::X);\n");
    let b = ("src/b.rs", "use crate::a::{X, Y};\n");
    // Neither the parent, which only declares and re-exports, nor its children form a cycle.
    assert_eq!(broken(&[lib, facade, x, y, b]), []);
    let x = ("src/a/x.rs", "pub(crate) struct X;\nuse crate::a::Y;\n");
    assert_eq!(broken(&[lib, facade, x, y, b]), [Rule::Circles]);
}

#[test]
fn a_child_that_uses_its_parent_is_one_if_the_parent_uses_the_child() {
    let lib = ("src/lib.rs", "mod a;\n");
    let child = ("src/a/child.rs", "use super::Shared;\npub(crate) fn run(_: Shared) {}\n");
    let parent = ("src/a/mod.rs", "mod child;\npub(crate) struct Shared;\n");
    assert_eq!(broken(&[lib, child, parent]), []);
    let parent = ("src/a/mod.rs", "mod child;\npub(crate) struct Shared;\nfn f() { child::run(Shared) }\n");
    assert_eq!(broken(&[lib, child, parent]), [Rule::Circles]);
}

#[test]
fn imports_for_tests_make_no_circle() {
    let lib = ("src/lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n");
    let a = ("src/a.rs", "pub(crate) fn f() { crate::b::g() }\n");
    let b = "pub(crate) fn g() {}\n#[cfg(test)]\nmod tests { use crate::a::f; }\n#[test]\nfn t() { crate::a::f() }\n";
    let tests = ("src/tests.rs", "use crate::a::f;\n");
    assert_eq!(broken(&[lib, a, ("src/b.rs", b), tests]), []);
    let b = b.replace("cfg(test)", "cfg(not(test))");
    assert_eq!(broken(&[lib, a, ("src/b.rs", &b), tests]), [Rule::Circles]);
}

#[test]
fn rooms_import_what_the_table_allows() {
    let lib = ("src/lib.rs", "mod a;\nmod b;\nmod c;\n");
    let code = [("src/a.rs", "use crate::b::B;\n"), ("src/b.rs", "pub(crate) struct B;\n"), ("src/c.rs", "")];
    let broken = |rows: &str| {
        let page = format!("<!-- imports -->\n| room | may import |\n| --- | --- |\n{rows}<!-- end imports -->\n");
        let report = look_at(&[&[lib, ("docs/DESIGN.md", &page)], &code[..]].concat());
        (report.broken(), report.text(true))
    };
    assert_eq!(broken("| a | `b`, c |\n| `src/b` | nothing |\n| c | — |\n").0, []);
    let (rules, text) = broken("| a | c |\n| b | |\n");
    assert_eq!(rules, [Rule::Imports]);
    assert!(text.contains("a imports b (src/a.rs:1 crate::b::B)") && text.contains("c has no row"), "{text}");
}

#[test]
fn sizes_are_measured_in_the_product_and_in_tests() {
    let body = |lines: usize| format!("#[cfg(test)]\nfn long() {{\n{}}}\n", "    f();\n".repeat(lines));
    assert_eq!(broken(&[("src/lib.rs", &body(79))]), [Rule::FunctionLines]);
    assert_eq!(broken(&[("src/lib.rs", &"//\n".repeat(401)), ("tests/t.rs", &"//\n".repeat(400))]), [Rule::FileLines]);
    assert_eq!(broken(&[("src/lib.rs", ""), ("src/abi/bindings.rs", &"//\n".repeat(500))]), []);
    let files: Vec<String> = (0..13).map(|number| format!("src/room/f{number}.rs")).collect();
    let mut tree: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "")).collect();
    tree.extend([("src/room/mod.rs", ""), ("src/lib.rs", "")]);
    assert_eq!(broken(&tree), [Rule::FolderFiles]);
    assert_eq!(broken(&tree[1..]), []);
}

#[test]
fn lines_of_tests_are_told_apart() {
    let lib = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n#[cfg(test)]\nmod more;\n";
    let report = look_at(&[("src/lib.rs", lib), ("src/more.rs", "//\n//\n"), ("tests/t.rs", "//\n")]);
    let lines = |room: &str| (report.rooms[room].production, report.rooms[room].test);
    assert_eq!((lines("src"), lines("src/more"), lines("tests")), ((2, 6), (0, 2), (0, 1)));
}

#[test]
fn public_items_are_those_that_other_crates_can_name() {
    let item = |number: usize| format!("pub struct S{number};\n");
    let many: String = (0..100).map(item).collect();
    let lib = "mod hidden;\npub mod shown;\npub use hidden::S0;\npub use hidden::S0 as Again;\n";
    let shown = "pub(crate) fn f() {}\n";
    let count = |shown| broken(&[("src/lib.rs", lib), ("src/hidden.rs", &*many), ("src/shown.rs", shown)]);
    assert_eq!(count(shown), []);
    assert_eq!(count("pub use super::hidden::*;\n"), []);
    assert_eq!(count("pub use super::hidden::*;\npub fn one_more() {}\n"), [Rule::PublicItems]);
}

#[test]
fn what_can_be_broken_is_to_be_at_most_120_columns_wide() {
    let words = "word ".repeat(25);
    let page = |line: &str| broken(&[("src/lib.rs", ""), ("README.md", &format!("# Page\n\n{line}\n"))]);
    assert_eq!(page(&words), [Rule::MarkdownColumns]);
    for fine in [format!("| {words}|"), format!("```\n{words}\n```"), format!("[a]: {words}"), "x".repeat(130)] {
        assert_eq!(page(&fine), [], "{fine}");
    }
    let code = |text: &str| broken(&[("src/lib.rs", text)]);
    assert_eq!(code(&format!("    // {words}\n")), [Rule::CommentColumns]);
    assert_eq!(code(&format!("//! | {words}\n")), []);
    assert_eq!(code(&format!("const A: &str = \"{words}\";\n")), []);
}

#[test]
fn an_exception_holds_as_long_as_it_is_needed() {
    let limits = [Limit { rule: Rule::FileLines, what: "lines", most: 400, over: 1 }];
    let found = |is| vec![("a", is), ("b", 500), ("c", 500)];
    let judge = |is, most| {
        let found = found(is).into_iter().map(|(what, is)| Found::new(Rule::FileLines, what, is));
        let exceptions = [
            Exception { rule: Rule::FileLines, what: "a", most, reason: "so" },
            Exception { rule: Rule::FileLines, what: "b", most: 500, reason: "so" },
        ];
        Report::new(found.collect(), Vec::new(), BTreeMap::new(), &limits, &exceptions)
    };
    assert!(!judge(450, 450).failed());
    // Beyond its own limit: two exceed the limit, but only one may.
    assert!(judge(451, 450).failed());
    // No longer needed.
    assert!(judge(400, 450).failed() && judge(400, 450).text(false).contains("no longer needed: a (so)"));
    // A tighter limit of its own.
    assert!(!judge(20, 20).failed());
    assert!(judge(21, 20).failed());
}
