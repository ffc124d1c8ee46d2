//! Checks that the columns match docs/REFERENCE.md.

use std::path::Path;

use crate::parquet::columns;
use parquet::basic::{LogicalType, Type};
use parquet::record::RecordWriter;

/// Names and types, as the page lists them.
fn columns<R>(_of: fn(R)) -> Vec<[String; 2]>
where
    for<'s> &'s [R]: RecordWriter<R>,
{
    let none: &[R] = &[];
    let schema = none.schema().expect("a schema");
    let columns = schema.get_fields().iter().map(|column| {
        let column_type = match column.get_physical_type() {
            Type::BOOLEAN => "bool",
            Type::INT32 => "int32",
            Type::INT64 => "int64",
            Type::DOUBLE => "double",
            Type::BYTE_ARRAY => "text",
            other => panic!("{other} in {}", column.name()),
        };
        let is_text = column.get_basic_info().logical_type_ref() == Some(&LogicalType::String);
        assert_eq!(is_text, column_type == "text", "{}", column.name());
        let mark = if column.is_optional() { "?" } else { "" };
        [column.name().to_owned(), format!("{column_type}{mark}")]
    });
    columns.collect()
}

fn documented(page: &str, table: &str) -> Vec<[String; 2]> {
    let marks = [format!("<!-- parquet {table} -->"), format!("<!-- end parquet {table} -->")];
    let [from, to] = marks.map(|mark| page.find(&mark).unwrap_or_else(|| panic!("no {mark}")));
    let lines = page[from..to].lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).skip(1);
            [(); 2].map(|()| cells.next().expect("a cell"))
        })
        .collect()
}

#[test]
fn the_reference_has_all_columns() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/REFERENCE.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let tables = [
        ("instances", columns(|_: columns::Instance<'_>| ())),
        ("ranks", columns(|_: columns::Rank<'_>| ())),
        ("operations", columns(|_: columns::Operation<'_>| ())),
        ("calls", columns(|_: columns::Call<'_>| ())),
        ("ranges", columns(|_: columns::Range<'_>| ())),
        ("transfers", columns(|_: columns::Transfer<'_>| ())),
        ("steps", columns(|_: columns::Step<'_>| ())),
        ("kernels", columns(|_: columns::Kernel<'_>| ())),
    ];
    for (table, columns) in tables {
        assert_eq!(columns, documented(&page, table), "{table}");
    }
}
