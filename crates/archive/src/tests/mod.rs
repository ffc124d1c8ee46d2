//! Tests of links, timelines and statements, made from streams of records with exact times.

mod links;
mod pages;
mod stream;
mod timeline;
mod traffic;
