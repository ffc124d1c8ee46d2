//! Prints the JSON Schema of what the page's script is given.

fn main() -> serde_json::Result<()> {
    serde_json::to_writer_pretty(std::io::stdout().lock(), &report_page::model_schema())
}
