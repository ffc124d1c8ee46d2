//! Runs the tests of the Python scripts with the interpreter of `cargo xtask test`.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

#[test]
fn the_scripts_pass_their_tests() {
    passes("xtask/python", &[]);
}

/// What needs no wheel; `packaging/python/tests/test_wheel.py` tests the rest.
#[test]
fn the_module_passes_its_tests() {
    passes("packaging/python/tests", &["test_files"]);
}

/// Runs the tests of a folder, or of some of its modules.
fn passes(folder: &str, modules: &[&str]) {
    let Some(python) = std::env::var_os("PYTHON") else {
        let reason = "PYTHON is not set (cargo xtask test sets it)";
        assert!(std::env::var_os("CI").is_none(), "in CI nothing is skipped, and {reason}");
        // Not println!: the test harness hides it if a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(python)
        // No __pycache__ in the source tree.
        .args(["-B", "-m", "unittest", "-v"])
        .args(modules)
        .env("PYTHONPATH", root.join("packaging/python/src"))
        .current_dir(root.join(folder))
        .output()
        .expect("start Python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // unittest succeeds even if it finds no test.
    assert!(!said.contains("Ran 0 tests"), "{said}");
}
