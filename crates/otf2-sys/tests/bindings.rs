//! The checked-in bindings are what bindgen makes of the header, and the library is the header's.

#[path = "../build/bind.rs"]
mod bind;

use std::panic;
use std::path::Path;

const CHECKED_IN: &str = "bindings/otf2_3_0.rs";

/// Set to write the regenerated bindings back instead of comparing.
const UPDATE: &str = "OTF2_SYS_UPDATE_BINDINGS";

#[test]
fn checked_in_bindings_are_current() {
    let (major, minor, _) = otf2_sys::HEADER_VERSION;
    if (major, minor) != (3, 0) {
        return skip(&format!("the installed header is {major}.{minor}, the bindings are of 3.0"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // bindgen's run-time loader panics where there is no libclang.
    let generated = panic::catch_unwind(|| bind::bindings(&root.join("wrapper.h"), &[]));
    let Ok(generated) = generated else {
        return skip("libclang is not installed (apt-get install libclang-dev)");
    };
    let generated = generated.expect("bindgen accepts otf2/otf2.h");
    let path = root.join(CHECKED_IN);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &generated).expect("the bindings can be written");
    }
    let checked_in = std::fs::read_to_string(&path).expect("the bindings are there");
    if let Some((number, (old, new))) =
        checked_in.lines().zip(generated.lines()).enumerate().find(|(_, (old, new))| old != new)
    {
        panic!("{CHECKED_IN}:{}: is\n  {old}\nbut bindgen makes\n  {new}\n(update: {UPDATE}=1)", number + 1);
    }
    assert_eq!(checked_in.lines().count(), generated.lines().count(), "{CHECKED_IN} has another length");
}

fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: {reason}");
    // Past the test harness, which keeps to itself what a test prints that passes.
    let line = format!("skipped: {reason}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("write to stderr");
}
