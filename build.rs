//! Binds wrapper.h.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const CHECKED_IN: &str = "src/abi/bindings.rs";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    bind_wrapper()
}

/// Puts the bindings into OUT_DIR: the checked-in ones, or with the feature `buildtime-bindgen` new ones.
fn bind_wrapper() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=wrapper.h");
    println!("cargo::rerun-if-changed={CHECKED_IN}");
    println!("cargo::rerun-if-env-changed=BINDGEN_WRITE");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("bindings.rs");
    #[cfg(feature = "buildtime-bindgen")]
    {
        let bindings = generate_bindings(Path::new("wrapper.h"))?;
        if env::var_os("BINDGEN_WRITE").is_some_and(|value| value == "1") {
            fs::write(CHECKED_IN, &bindings).map_err(|error| format!("{CHECKED_IN}: {error}"))?;
        }
        fs::write(&out, bindings).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    #[cfg(not(feature = "buildtime-bindgen"))]
    fs::copy(Path::new(CHECKED_IN), &out).map_err(|error| format!("{CHECKED_IN}: {error}"))?;
    Ok(())
}

/// How wrapper.h becomes Rust. The test that compares the checked-in result calls it, too.
#[cfg(any(test, feature = "buildtime-bindgen"))]
pub(crate) fn generate_bindings(header: &Path) -> Result<String, bindgen::BindgenError> {
    let bindings = bindgen::Builder::default()
        .header(header.display().to_string())
        .allowlist_item("nccl.*|NCCL_.*")
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(true)
        .derive_copy(true)
        .derive_default(true)
        .derive_debug(false)
        .use_core()
        .formatter(bindgen::Formatter::Prettyplease)
        .disable_header_comment()
        .generate()?;
    Ok(bindings.to_string())
}
