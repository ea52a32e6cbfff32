# Tenon.  `make run` is the main job, `make test` all tests; both set up everything they need.  `make help` lists the rest.
SHELL := /bin/bash
BUILD ?= build
PYTHON := .venv/bin/python
DNN := .venv/onednn.stamp
export PATH := $(CURDIR)/$(BUILD):$(PATH)
unexport MAKEFLAGS # of -j here: builds below have their own

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 18

packages: ## system packages that are missing (Debian; uses sudo when not root)
	@scripts/packages.sh

.venv/base.stamp: scripts/venv.sh scripts/requirements.txt | packages
	@scripts/venv.sh .venv scripts/requirements.txt && touch $@

.venv-zoo/base.stamp: scripts/venv.sh scripts/requirements-zoo.txt | packages
	@scripts/venv.sh .venv-zoo scripts/requirements-zoo.txt && touch $@

.venv-mxnet-%/base.stamp: scripts/venv.sh scripts/requirements-mxnet-%.txt | packages
	@scripts/venv.sh .venv-mxnet-$* scripts/requirements-mxnet-$*.txt --no-deps && touch $@

$(BUILD)/CMakeCache.txt: .venv/base.stamp CMakeLists.txt
	@cmake -S . -B $(BUILD) --preset release > .venv/configure.log || { cat .venv/configure.log; exit 1; }

build: $(BUILD)/CMakeCache.txt ## libtenon and the command, at build/tenon
	@cmake --build $(BUILD) --parallel $$(nproc) > $(BUILD)/build.log || { grep -E -A8 'error|warning' $(BUILD)/build.log || tail -30 $(BUILD)/build.log; exit 1; }

run: build ## text in, nearest passages out (QUESTION="..." asks your own, FILES="..." reads yours)
	@scripts/run.sh $(BUILD) $(if $(QUESTION),-q "$(QUESTION)") $(FILES)

MXNETS := .venv-mxnet-1.7/base.stamp .venv-mxnet-1.8/base.stamp .venv-mxnet-1.9/base.stamp

test: ## every test; the totals say what did not run, and why
	@$(MAKE) --no-print-directory -j 3 BUILD=$(BUILD) setup
	@scripts/test.sh $(BUILD)

setup: build packages-test .venv-zoo/base.stamp $(MXNETS) ## what the tests need

packages-test: packages
	@scripts/packages.sh test

test-%: build
	@scripts/packages.sh test && scripts/test.sh $(BUILD) $*

test-mxnet: build .venv-zoo/base.stamp $(MXNETS) ## MXNet's libraries and models here, and ours there, beside real MXNet 1.7, 1.8 and 1.9
	@scripts/packages.sh test && scripts/test.sh $(BUILD) mxnet

mxnet-examples: build .venv-zoo/base.stamp $(MXNETS) ## the example libraries of MXNet's source tree, unmodified, beside real MXNet (MXNET_SOURCE=DIR)
	@MXNET_SOURCE="$(MXNET_SOURCE)" TENON_BUILD=$(BUILD) .venv-zoo/bin/python tests/adapters/mxnet_examples_test.py

sanitize: build ## all C tests and the ONNX cases under address, undefined and thread sanitizers
	@scripts/sanitize.sh all asan tsan

stress: build ## kernels and libraries come and go while others call: 10 s, and 60 s under the thread sanitizer
	@scripts/stress.sh $(BUILD)

sim-seeds: build zoo ## streams of the simulated device with 1,000 seeds of random delays
	@cmake --build $(BUILD) --target test_device_order test_device_placement --parallel $$(nproc) >$(BUILD)/seeds.log && SIM_SEEDS=1000 $(BUILD)/tests/test_device_order && SIM_SEEDS=1000 $(BUILD)/tests/test_device_placement && SIM_SEEDS=1000 TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/device_models_test.py sim-spread

device-failures: build zoo ## each allocation, copy, launch and piece of work of MiniLM on a device fails in turn (FAILURES_MODEL=... of another model)
	@cmake --build $(BUILD) --target test_device_model_failures --parallel $$(nproc) >$(BUILD)/failures.log && TENON_SHOW=1 FAILURES_MODEL=$(or $(FAILURES_MODEL),$(BUILD)/zoo/minilm_16.onnx) $(BUILD)/tests/test_device_model_failures

isolation: build ## a hundred rounds of each kind of misbehaviour, isolated (ROUNDS=N)
	@cmake --build $(BUILD) --target isolation_rounds --parallel $$(nproc) >$(BUILD)/isolation.log && TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/isolation_test.py $(or $(ROUNDS),100)

device-faults: build ## the device suite: 200 runs of the correct example, 20 of each faulty one, with all processors busy
	@TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/devices_test.py --all

leaks: build .venv-zoo/base.stamp ## calls from Python, and through PyTorch, under valgrind: minutes
	@TENON_BUILD=$(BUILD) .venv-zoo/bin/python tests/adapters/leaks_test.py torch

failures: build .venv-zoo/base.stamp ## every request to the system fails in turn over load, import, compile, run and unload, under address sanitizer: minutes
	@scripts/failures.sh 1

fuzz: .venv/base.stamp ## looks for what breaks readers and calls: MINUTES=10 for each target (TARGET="text call": these)
	@scripts/packages.sh test && scripts/fuzz.sh $$(( $(or $(MINUTES),10) * 60 )) $(TARGET)

coverage: .venv-zoo/base.stamp ## line coverage of src/ by the tests: half an hour
	@scripts/packages.sh test && scripts/coverage.sh

bench: build .venv-zoo/base.stamp ## call cost, load, models against ONNX Runtime and OpenVINO
	@$(PYTHON) bench/run.py $(BENCH)

zoo: .venv-zoo/base.stamp ## the model zoo, into build/zoo
	@.venv-zoo/bin/python bench/models/make_zoo.py $(BUILD)/zoo

install: build ## into PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

support: build ## docs/support.md, the table of what each built-in operator supports, from the registry
	@$(PYTHON) scripts/support.py $(BUILD)

abi-update: build ## abi/ anew, after something was added to the headers; refuses what breaks
	@$(PYTHON) abi/update.py update $(BUILD)

abi-snapshot: .venv/base.stamp ## the headers as they are into abi/VERSION, for a release
	@$(PYTHON) abi/update.py snapshot

format: ## clang-format over the sources
	@scripts/sources.sh | xargs clang-format -i --style=file

clean: ## removes build folders, keeps virtual environments
	rm -rf $(BUILD) build-*

.PHONY: help packages build run test setup packages-test test-mxnet mxnet-examples sanitize stress sim-seeds device-failures device-faults leaks failures fuzz coverage bench zoo install support abi-update abi-snapshot format clean
