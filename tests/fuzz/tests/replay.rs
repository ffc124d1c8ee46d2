//! Every input of `corpus/` keeps the promises of its target. A fault that was found stays mended.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz::TARGETS;

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

#[test]
fn every_input_keeps_the_promises() {
    for target in TARGETS {
        let inputs = listed(&corpus().join(target.name));
        assert!(!inputs.is_empty(), "{} has no inputs", target.name);
        for input in inputs {
            // The test's output says which input it was, if this panics.
            println!("{}", input.display());
            (target.run)(&fs::read(&input).expect("an input"));
        }
    }
}

#[test]
fn every_folder_is_of_a_target() {
    let folders: BTreeSet<String> =
        listed(&corpus()).iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    assert_eq!(folders, TARGETS.iter().map(|target| target.name.to_owned()).collect());
}
