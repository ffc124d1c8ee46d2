//! Runs the tests of the Python scripts with the interpreter of `cargo xtask test`.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

#[test]
fn the_scripts_pass_their_tests() {
    let Some(python) = std::env::var_os("PYTHON") else {
        let reason = "PYTHON is not set (cargo xtask test sets it)";
        assert!(std::env::var_os("CI").is_none(), "in CI nothing is skipped, and {reason}");
        // Not println!: the test harness hides it if a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let output = Command::new(python)
        // No __pycache__ in the source tree.
        .args(["-B", "-m", "unittest", "-v"])
        .current_dir(folder)
        .output()
        .expect("start Python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // unittest succeeds even if it finds no test.
    assert!(!said.contains("Ran 0 tests"), "{said}");
}
