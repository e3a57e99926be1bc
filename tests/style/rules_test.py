"""Each style rule must pass a good tree and fail a bad one; the trees are made on the spot."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import layering
import sizes
import words
from functions import functions

DOCUMENT = """
```arrows
cli -> server shard/base
server -> shard/base
shard/base ->
```
```places
grpcpp/ -> server/* cli/*
prometheus/ -> server/metrics*
getenv -> cli/*
```
"""

GOOD = {
    "docs/ARCHITECTURE.md": DOCUMENT,
    "cli/main.cc": '#include "server/run.h"\n#include "shard/base/a.h"\nchar* a = getenv("A");\n',
    "server/run.h": '#include <grpcpp/grpcpp.h>\n#include "shard/base/a.h"\n',
    "server/metrics.cc": "#include <prometheus/registry.h>\n",
    "shard/base/a.h": "// getenv is not used here; nor is #include \"server/run.h\"\nint a();\n",
}


class Tree:
    """A temporary source tree with GOOD's files, some of them replaced or added."""

    def __init__(self, changes):
        self._folder = tempfile.TemporaryDirectory()
        self.root = self._folder.name
        for path, text in {**GOOD, **changes}.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)

    def close(self):
        self._folder.cleanup()


class RuleTest(unittest.TestCase):
    def problems(self, check, changes):
        tree = Tree(changes)
        self.addCleanup(tree.close)
        return "\n".join(check(tree.root))


class LayeringTest(RuleTest):
    def expect(self, words_of_problem, changes):
        self.assertIn(words_of_problem, self.problems(layering.check, changes))

    def test_good_tree_passes(self):
        self.assertEqual("", self.problems(layering.check, {}))

    def test_include_without_an_arrow(self):
        self.expect("shard/base/ may not include server/", {
            "shard/base/b.cc": '#include "server/run.h"\n'})

    def test_arrow_that_nothing_needs(self):
        self.expect("no include needs the arrow cli -> shard/base", {
            "cli/main.cc": '#include "server/run.h"\n'})

    def test_folder_without_a_line(self):
        self.expect("scheduler/ has code but no line", {"scheduler/a.cc": "int a;\n"})

    def test_arrow_from_a_folder_that_is_not_there(self):
        self.expect("the arrows name shard/gone/", {
            "docs/ARCHITECTURE.md": DOCUMENT.replace("shard/base ->", "shard/base ->\nshard/gone ->")})

    def test_cycle(self):
        self.expect("include one another: server -> shard/base -> server", {
            "docs/ARCHITECTURE.md": DOCUMENT.replace("shard/base ->", "shard/base -> server"),
            "shard/base/a.h": '#include "server/run.h"\n'})

    def test_library_out_of_its_place(self):
        self.expect("server/call.cc: prometheus/ belongs only in", {
            "server/call.cc": "#include <prometheus/counter.h>\n"})
        self.expect("shard/base/b.cc: grpcpp/ belongs only in", {
            "shard/base/b.cc": '#include "grpcpp/server.h"\n'})

    def test_word_out_of_its_place(self):
        self.expect("server/call.cc: getenv belongs only in", {
            "server/call.cc": 'auto a = std::getenv("HOME");\n'})

    def test_document_without_the_blocks(self):
        self.expect("are missing", {"docs/ARCHITECTURE.md": "# Nothing\n"})


class SizesTest(RuleTest):
    def check(self, root):
        return sizes.check(root)[0]

    def test_good_tree_passes(self):
        self.assertEqual("", self.problems(self.check, {"server/a.cc": "int A() { return 1; }\n"}))

    def test_long_file(self):
        self.assertIn("server/a.h: 501 lines", self.problems(self.check, {
            "server/a.h": "int a;\n" * 501}))

    def test_long_function(self):
        self.assertIn("server/a.cc:2: Long: 61 lines", self.problems(self.check, {
            "server/a.cc": "int x;\nvoid Long() {\n" + "  ++x;\n" * 59 + "}\n"}))

    def test_long_python_function(self):
        self.assertIn("a.py:1: long: 62 lines", self.problems(self.check, {
            "a.py": "def long():\n" + "    pass\n" * 61}))

    def test_high_median(self):
        self.assertIn("the median function has 12 lines", self.problems(self.check, {
            "server/a.cc": "void A() {\n" + "  ++x;\n" * 10 + "}\n"}))


class WordsTest(RuleTest):
    def test_good_tree_passes(self):
        self.assertEqual("", self.problems(words.check, {}))

    def test_each_pattern(self):
        bad = ["see /wo" "rk/main/x", "/ho" "me/me/x", "https://py" "pi.org/simple", "by Cla" "ude",
               "// TO" "DO: finish"]
        for text in bad:
            with self.subTest(text):
                self.assertIn("docs/a.md:1", self.problems(words.check, {"docs/a.md": text + "\n"}))


class FunctionsTest(unittest.TestCase):
    def found(self, text):
        return [(f.name, f.line, f.lines) for f in functions(text)]

    def test_free_functions_and_members(self):
        self.assertEqual([("A", 2, 3), ("size", 6, 1), ("C::C", 8, 4)], self.found(
            "namespace n {\nint A(int b) {\n  return b;\n}\n"
            "class C final : public B {\n public: int size() const { return 1; }\n};\n"
            "C::C(int a)\n    : a_(a), b_{a} {\n  f();\n}\n}  // namespace n\n"))

    def test_what_is_nested_belongs_to_its_function(self):
        self.assertEqual([("A", 1, 6)], self.found(
            "void A() {\n  auto f = [&](int a) {\n    return a;\n  };\n  struct L { int b() { return 1; } };\n}\n"))

    def test_values_are_no_functions(self):
        self.assertEqual([], self.found(
            "std::atomic<int> a{1};\nconst Row kRows[] = {\n  {1, f(2)},\n};\nenum class E : int { kA };\n"
            "int Declared(const Options& o = {});\nusing F = std::function<void()>;\n"
            "struct S { int a = 0; std::vector<int> b = {1, 2}; };\n"))

    def test_templates_operators_and_returns(self):
        self.assertEqual(["A", "operator==", "operator", "B"], [f[0] for f in self.found(
            "template <typename T = int, int N = 3>\nauto A(T t) -> std::vector<T> { return {t}; }\n"
            "struct S {\n  bool operator==(const S& o) const { return true; }\n"
            "  int operator()(int a) const noexcept { return a; }\n};\n"
            "struct S B(int a) { return {}; }\n")])

    def test_attributes_macros_and_tests(self):
        self.assertEqual(["Lock", "TEST(Area, Case)"], [f[0] for f in self.found(
            "class ABSL_LOCKABLE M {\n public:\n"
            "  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { m_.lock(); }\n};\n"
            "class ABSL_DEPRECATED(\"x\") N { int a; };\n"
            "TEST(Area, Case) { EXPECT_EQ(1, 1); }\n")])

    def test_braces_in_text_are_not_counted(self):
        self.assertEqual([("A", 1, 5), ("B", 6, 1)], self.found(
            "void A() {  // {\n  f(\"{\", '{', R\"({)\", 1'000);\n  /* { */\n#define X {\n}\nvoid B() {}\n"))


if __name__ == "__main__":
    unittest.main()
