//! Parts of a test that need a separate process, because a library's initialisation holds for the process's lifetime.

use std::path::Path;
use std::process::Command;

use crate::process::{FinishedProcess, run};

/// The variable that names a child's scenario: a test can have several.
const INNER: &str = "TEST_SCENARIO";

/// Runs `body` of the test `name` in a process with these variables and this library preloaded; it must succeed.
pub fn passes(name: &str, variables: &[(&str, &str)], preloaded: Option<&Path>, body: impl FnOnce()) {
    if let Some(ended) = in_child(name, variables, preloaded, body) {
        assert!(ended.status.success(), "{name} {variables:?}: {ended}");
        assert!(ended.stdout.contains("1 passed"), "no test is called {name}: {ended}");
    }
}

pub fn fails(name: &str, variables: &[(&str, &str)], preloaded: Option<&Path>, why: &str, body: impl FnOnce()) {
    if let Some(ended) = in_child(name, variables, preloaded, body) {
        let is_said = ended.stdout.contains(why) || ended.stderr.contains(why);
        assert!(!ended.status.success() && is_said, "{name} {variables:?}, {why:?}: {ended}");
    }
}

fn in_child(
    name: &str,
    variables: &[(&str, &str)],
    preloaded: Option<&Path>,
    body: impl FnOnce(),
) -> Option<FinishedProcess> {
    let own = format!("{name} {variables:?}");
    if let Ok(inner) = std::env::var(INNER) {
        if inner == own {
            body();
        }
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args([name, "--exact", "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["FAKECUPTI_", "FAKEGPU_", "CUDA_HOME"].iter().any(|ours| text.starts_with(ours)) {
            command.env_remove(&name);
        }
    }
    if let Some(library) = preloaded {
        command.env("LD_PRELOAD", library);
    }
    Some(run(command.env(INNER, own).envs(variables.iter().copied())))
}
