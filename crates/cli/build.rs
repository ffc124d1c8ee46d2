//! Strips the tool: cargo strips only debug information of a package that has an optimisation level of its own.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("DEBUG").is_ok_and(|debug| debug == "false") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
