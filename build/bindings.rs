// How wrapper.h becomes Rust: shared by build.rs and by the test that compares the checked-in result.

/// Binds `header`, which must be NCCL's profiler interface as wrapper.h declares it.
fn generate_bindings(header: &Path) -> Result<String, bindgen::BindgenError> {
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
