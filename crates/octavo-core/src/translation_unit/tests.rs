use super::markers_that_reach;
use proptest::prelude::*;

const MARKER: &[u8] = b"0x0000002000";

fn reaches(text: &str) -> bool {
    markers_that_reach(text.as_bytes(), &[MARKER]) == [true]
}

const REAL: &str = concat!(
    "# 1 \"a.c\"\ntypedef struct { char data[0x0000002000]; } Block; extern int (*f)(int, char *);\n",
    "static inline int g(Block *b) { return b->data['\\'']; } enum { A = 0x0000002000, B };\n",
    "int h[] = { [1] = B, }; int main(void) { /* x */ return g(0) + sizeof(\"a\\\"b\"); }\n",
);

const BLOCK: &str =
    "typedef union PGAlignedBlock { char data[0x0000002000]; double force; } PGAlignedBlock;\n";

#[test]
fn a_type_that_nobody_uses_does_not_reach() {
    assert!(!reaches(&format!(
        "{BLOCK} int data; int f(void) {{ return data; }}"
    )));
    assert!(!reaches(&format!(
        "{BLOCK} extern void g(PGAlignedBlock *b, int b2); int f(int b) {{ return b; }}"
    )));
}

#[test]
fn a_type_that_a_function_or_an_object_uses_reaches() {
    assert!(reaches(&format!(
        "{BLOCK} int f(void) {{ PGAlignedBlock b; return sizeof(b); }}"
    )));
    assert!(reaches(&format!("{BLOCK} static PGAlignedBlock page;")));
    assert!(reaches(&format!(
        "{BLOCK} struct a {{ PGAlignedBlock b; }}; int f(struct a *x) {{ return 1; }}"
    )));
    assert!(reaches(&format!(
        "{BLOCK} extern PGAlignedBlock shared; void *f(void) {{ return &shared; }}"
    )));
    assert!(reaches(
        "struct __attribute__((packed)) page { char d[0x0000002000]; }; int f(struct page *p) { return 1; }"
    ));
    assert!(reaches(
        "typedef struct __attribute__((packed)) { char d[0x0000002000]; } Page; int f(Page *p) { return 1; }"
    ));
}

#[test]
fn an_inline_function_counts_when_it_is_called() {
    let inline = "static inline int size(void) { return 0x0000002000; }\n";
    assert!(!reaches(&format!("{inline} int f(void) {{ return 1; }}")));
    assert!(reaches(&format!(
        "{inline} int f(void) {{ return size(); }}"
    )));
    let two = format!("{inline} static inline int twice(void) {{ return 2 * size(); }}");
    assert!(!reaches(&two));
    assert!(reaches(&format!("{two} int f(void) {{ return twice(); }}")));
}

#[test]
fn functions_and_objects_with_the_constant_reach() {
    assert!(reaches("int f(void) { return 0x0000002000; }"));
    assert!(reaches("static int f(void) { return 0x0000002000; }"));
    assert!(reaches("static const int sizes[] = { 1, 0x0000002000 };"));
    assert!(reaches("int buffer[0x0000002000];"));
    assert!(reaches("const char *name = \"0x0000002000\";"));
    assert!(reaches("int (*table[0x0000002000])(void);"));
    assert!(reaches("extern int x = 0x0000002000;"));
}

#[test]
fn enumerators_typedefs_and_pointers_to_functions_are_followed() {
    let e = "enum { A, LIMIT = (0x0000002000 / 2), B };\n";
    assert!(!reaches(&format!("{e} int f(void) {{ return 1; }}")));
    assert!(reaches(&format!("{e} int f(void) {{ return LIMIT; }}")));
    let callback = "typedef int (*callback)(char (*page)[0x0000002000]);\n";
    assert!(!reaches(&format!("{callback} int f(void) {{ return 1; }}")));
    assert!(reaches(&format!(
        "{callback} int f(callback c) {{ return c(0); }}"
    )));
    let function = "extern int (*hook)(char page[0x0000002000]);\n";
    assert!(reaches(&format!(
        "{function} int f(void) {{ return hook(0); }}"
    )));
}

#[test]
fn an_assertion_at_file_scope_emits_nothing() {
    assert!(!reaches(
        "_Static_assert(0x0000002000 > 1, \"too small\"); int f(void) { return 1; }"
    ));
}

#[test]
fn text_after_an_attribute_or_a_body_is_a_declaration_of_its_own() {
    let text = "static inline __attribute__((always_inline)) int g(void) __attribute__((unused)) { return 0x0000002000; }\n";
    assert!(!reaches(&format!("{text} int f(void) {{ return 1; }}")));
    assert!(reaches(&format!("{text} int f(void) {{ return g(); }}")));
}

#[test]
fn line_markers_are_no_text() {
    assert!(!reaches(
        "# 1 \"0x0000002000\"\nint f(void) { return 1; }\n#pragma pack(0x0000002000)\n"
    ));
}

#[test]
fn each_marker_is_answered_apart() {
    let text = b"int f(void) { return 0x001; } static inline int g(void) { return 0x002; }";
    assert_eq!(
        markers_that_reach(text, &[b"0x001", b"0x002", b"0x003"]),
        [true, false, false]
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_their_end(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = markers_that_reach(&text, &[MARKER]);
    }

    #[test]
    fn any_brackets_are_read_to_their_end(text in "[a(){};=\\[\\]*, \"']{0,60}") {
        let _ = markers_that_reach(text.as_bytes(), &[MARKER]);
    }

    #[test]
    fn any_change_of_real_code_is_read_to_its_end(
        (begin, end) in (0..REAL.len(), 0..REAL.len()),
        new in "[a-z0-9(){};=*,\"'/\\\\ \\n]{0,24}",
    ) {
        let text = format!("{}{new}{}", &REAL[..begin], &REAL[end..]);
        let _ = markers_that_reach(text.as_bytes(), &[MARKER]);
    }

    #[test]
    fn a_function_that_holds_the_constant_always_reaches(before in "(int [a-c];|struct [a-c] \\{ int d; \\};|typedef int [d-f];){0,6}") {
        let text = format!("{before} int g(void) {{ return 0x0000002000; }}");
        prop_assert!(reaches(&text));
    }
}
