//! Finds libotf2, checks that it is 3.0 or newer, and writes the bindings to `OUT_DIR`.

#[cfg(feature = "buildtime-bindgen")]
#[path = "build/bind.rs"]
mod bind;
#[path = "build/probe.rs"]
mod probe;

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=wrapper.h");
    println!("cargo::rerun-if-changed=bindings/otf2_3_0.rs");
    for variable in probe::VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }

    let found = match probe::find(&probe::Request::from_environment()) {
        Ok(found) => found,
        Err(reasons) => fail(&reasons.to_string()),
    };
    for line in found.link_lines() {
        println!("{line}");
    }
    for (key, value) in found.metadata() {
        if key == "include" {
            println!("cargo::rustc-env=OTF2_SYS_INCLUDE={value}");
        }
        println!("cargo::metadata={key}={value}");
    }

    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let (major, minor, bugfix) = found.version;
    write(&out.join("header_version.rs"), &format!("({major}, {minor}, {bugfix})\n"));
    write(&out.join("bindings.rs"), &bindings(&found));
}

#[cfg(feature = "buildtime-bindgen")]
fn bindings(found: &probe::Installation) -> String {
    match bind::bindings("wrapper.h".as_ref(), &found.include_directories) {
        Ok(text) => text,
        Err(error) => fail(&format!("bindgen failed on otf2/otf2.h: {error}")),
    }
}

#[cfg(not(feature = "buildtime-bindgen"))]
fn bindings(_found: &probe::Installation) -> String {
    match fs::read_to_string("bindings/otf2_3_0.rs") {
        Ok(text) => text,
        Err(error) => fail(&format!("cannot read bindings/otf2_3_0.rs: {error}")),
    }
}

fn write(path: &std::path::Path, text: &str) {
    if let Err(error) = fs::write(path, text) {
        fail(&format!("cannot write {}: {error}", path.display()));
    }
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    #[expect(clippy::exit, reason = "a build script reports failure by its exit status")]
    std::process::exit(1)
}
