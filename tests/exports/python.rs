//! The Python module on recordings, with the tool that was built instead of the wheel's: `packaging/python/tests`.

use std::env;

use whole_plugin::built;
use whole_plugin::jobs::ranges;
use whole_plugin::machine::python_with;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// Runs a file of tests; nothing where Python has no pyarrow.
fn tests(scratch: &Scratch, file: &str, words: &[&str]) {
    let Some(python) = python_with("pyarrow") else { return };
    let tool = built::nccl_otf2();
    let own = tool.parent().into_iter().map(ToOwned::to_owned);
    let path = env::join_paths(own.chain(env::split_paths(&env::var_os("PATH").unwrap_or_default()))).expect("a path");
    let folder = built::root().join("packaging/python");
    let mut tests = scratch.plain(python);
    tests.arg("-B").arg(folder.join("tests").join(file)).args(words);
    let ended = run(tests.env("PATH", path).env("PYTHONPATH", folder.join("src"))).with_code(0);
    assert!(ended.stderr.contains("\nOK\n") && ended.stderr.contains("Ran "), "{ended}");
}

#[test]
fn what_a_notebook_sees_is_what_the_command_says() {
    let scratch = Scratch::new();
    let Some(()) = ranges(&scratch, &["steps", "threads"]) else { return };
    tests(&scratch, "test_answers.py", &["out"]);
}

#[test]
fn whatever_ends_the_command_is_an_exception() {
    tests(&Scratch::new(), "test_files.py", &[]);
}
