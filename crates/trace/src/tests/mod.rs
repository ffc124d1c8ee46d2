//! What is made of records: links, timelines and statements, by streams of records with exact times.

mod links;
mod pages;
mod stream;
mod timeline;
mod traffic;
