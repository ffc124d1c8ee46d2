//! The checked-in bindings equal bindgen's output for the header, and the handwritten constants equal the header's.

#[path = "../build/bind.rs"]
mod bind;

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;

const CHECKED_IN: &str = "bindings/otf2_3_0.rs";

/// If set, the test writes the regenerated bindings back instead of comparing them.
const UPDATE: &str = "OTF2_SYS_UPDATE_BINDINGS";

#[test]
fn checked_in_bindings_are_current() {
    let (major, minor, _) = otf2_sys::HEADER_VERSION;
    if (major, minor) != (3, 0) {
        return skip(&format!("the installed header is {major}.{minor}, the bindings are of 3.0"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // bindgen's run-time loader panics if there is no libclang.
    let generated = panic::catch_unwind(|| bind::bindings(&root.join("wrapper.h"), &[]));
    let Ok(generated) = generated else {
        return skip("libclang is not installed (apt-get install libclang-dev)");
    };
    let generated = generated.expect("bindgen accepts otf2/otf2.h");
    let path = root.join(CHECKED_IN);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &generated).expect("the bindings can be written");
    }
    let checked_in = fs::read_to_string(&path).expect("the bindings are there");
    if let Some((number, (old, new))) =
        checked_in.lines().zip(generated.lines()).enumerate().find(|(_, (old, new))| old != new)
    {
        panic!("{CHECKED_IN}:{}: is\n  {old}\nbut bindgen makes\n  {new}\n(update: {UPDATE}=1)", number + 1);
    }
    assert_eq!(checked_in.lines().count(), generated.lines().count(), "{CHECKED_IN} has another length");
}

#[test]
fn constants_written_by_hand_are_those_of_the_header() {
    let table: &[(&str, u64)] = &[
        ("OTF2_UNDEFINED_UINT8", otf2_sys::OTF2_UNDEFINED_UINT8.into()),
        ("OTF2_UNDEFINED_UINT32", otf2_sys::OTF2_UNDEFINED_UINT32.into()),
        ("OTF2_UNDEFINED_UINT64", otf2_sys::OTF2_UNDEFINED_UINT64),
        ("OTF2_CHUNK_SIZE_MIN", otf2_sys::OTF2_CHUNK_SIZE_MIN),
        ("OTF2_CHUNK_SIZE_MAX", otf2_sys::OTF2_CHUNK_SIZE_MAX),
        ("OTF2_COLLECTIVE_ROOT_NONE", otf2_sys::OTF2_COLLECTIVE_ROOT_NONE.into()),
    ];
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("constants.c");
    let mut text = String::from("#include <otf2/otf2.h>\n");
    for (name, value) in table {
        text += &format!("_Static_assert((uint64_t)({name}) == {value}ULL, \"{name}\");\n");
    }
    fs::write(&source, text).expect("the source can be written");
    let compiler =
        Command::new("cc").arg("-fsyntax-only").arg(concat!("-I", env!("OTF2_SYS_INCLUDE"))).arg(&source).output();
    let Ok(output) = compiler else {
        return skip("there is no C compiler called cc");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: {reason}");
    // Bypass the test harness, which hides the output of passing tests.
    let line = format!("skipped: {reason}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("write to stderr");
}
