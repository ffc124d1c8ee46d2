//! docs/GPU.md lists the checks that there are.

use std::process::Command;

use whole_plugin::built::root;

#[test]
fn the_page_has_every_check() {
    let page = std::fs::read_to_string(root().join("docs/GPU.md")).unwrap();
    let (_, list) = page.split_once("<!-- gpu checks -->\n").unwrap();
    let (list, _) = list.split_once("<!-- end gpu checks -->").unwrap();
    let listed = Command::new(env!("CARGO_BIN_EXE_gpu-check")).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let row = |line: &str| {
        // The number has two columns, and may be none.
        let (number, rest) = line.split_at(2);
        let (name, settles) = rest.trim().split_once(' ').unwrap();
        format!("| {} | `{name}` | {} |\n", number.trim(), settles.trim()).replace("|  |", "| |")
    };
    assert_eq!(list, listed.lines().map(row).collect::<String>());
}
