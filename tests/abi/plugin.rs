//! The built plugin: what it exports, how it is linked, and what its functions survive.

use std::process::Command;

use whole_plugin::built::plugin;
use whole_plugin::kinds::NEWEST;
use whole_plugin::scratch::Scratch;

use super::{compiler, root, text};

#[test]
fn the_tables_and_the_entries_for_score_p_and_tensorflows_library_are_exported_and_nothing_else() {
    let listed = text(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(plugin()));
    let mut exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    exported.sort_unstable();
    let tables = (1..=NEWEST).map(|version| format!("ncclProfiler_v{version}"));
    let entries = [
        "InitializeInjectionNvtx2",
        "InitializeInjectionNvtxExtension",
        "SCOREP_SubstratePlugin_nccl_otf2_get_info",
        "nccl_otf2_recorded_v1",
    ]
    .map(str::to_owned);
    let mut expected: Vec<String> = entries.into_iter().chain(tables).collect();
    expected.sort_unstable();
    assert_eq!(exported, expected);
}

#[test]
fn the_tables_are_read_only_after_loading_and_128_bytes() {
    let symbols = text(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(plugin()));
    let sections = text(Command::new("readelf").args(["-W", "-S"]).arg(plugin()));
    let relro = sections
        .lines()
        .find(|line| line.contains(" .data.rel.ro "))
        .and_then(|line| line.split(['[', ']']).nth(1))
        .expect("a section .data.rel.ro")
        .trim()
        .to_owned();
    let tables: Vec<Vec<&str>> = symbols
        .lines()
        .filter(|line| line.contains("ncclProfiler_v"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(tables.len(), NEWEST as usize);
    for table in tables {
        // Num: Value Size Type Bind Vis Ndx Name
        assert_eq!((table[2], table[6]), ("128", relro.as_str()), "{table:?}");
    }
}

#[test]
fn the_plugin_is_pinned_and_has_its_name() {
    let dynamic = text(Command::new("readelf").args(["-W", "-d"]).arg(plugin()));
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    assert!(dynamic.contains("Library soname: [libnccl-profiler-otf2.so]"), "{dynamic}");
}

#[test]
fn every_function_survives_what_nccl_may_pass() {
    let scratch = Scratch::new();
    let host = scratch.path().join("abi_calls");
    let mut compiler = compiler(&["-std=c11", "-O1", "-pthread"]);
    let _silent = text(compiler.arg("-o").arg(&host).arg(root().join("tests/abi/calls.c")).arg("-ldl"));
    let _survived = text(scratch.command(&host).arg(plugin()));
}
