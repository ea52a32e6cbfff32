# `make run` does the main job and `make test` runs all tests; both set up everything they need. `make help` lists all targets.
SHELL := /bin/bash
BUILD ?= build
PYTHON := .venv/bin/python
DNN := .venv/onednn.stamp
export PATH := $(CURDIR)/$(BUILD):$(PATH)
unexport MAKEFLAGS # the builds below choose their own -j

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 18

packages: ## install missing system packages (Debian; uses sudo unless run by root)
	@scripts/packages.sh

.venv/base.stamp: scripts/venv.sh scripts/requirements.txt | packages
	@scripts/venv.sh .venv scripts/requirements.txt && touch $@

.venv-zoo/base.stamp: scripts/venv.sh scripts/requirements-zoo.txt | packages
	@scripts/venv.sh .venv-zoo scripts/requirements-zoo.txt && touch $@

.venv-compile/base.stamp: scripts/venv.sh scripts/requirements-compile.txt .venv-zoo/base.stamp
	@scripts/venv.sh .venv-compile scripts/requirements-compile.txt --no-deps
	@cd .venv-compile/lib/python3* && echo "$(CURDIR)/.venv-zoo/lib/$${PWD##*/}/site-packages" >site-packages/zoo.pth
	@touch $@

.venv-breadth/base.stamp: scripts/venv.sh scripts/requirements-breadth.txt | packages
	@scripts/venv.sh .venv-breadth scripts/requirements-breadth.txt && touch $@

.venv-jax/base.stamp: scripts/venv.sh scripts/requirements-jax.txt | packages
	@scripts/venv.sh .venv-jax scripts/requirements-jax.txt && touch $@

.venv-tensorflow/base.stamp: scripts/venv.sh scripts/requirements-tensorflow.txt | packages
	@scripts/venv.sh .venv-tensorflow scripts/requirements-tensorflow.txt && touch $@

.venv-classic/base.stamp: scripts/venv.sh scripts/requirements-classic.txt | packages
	@scripts/venv.sh .venv-classic scripts/requirements-classic.txt && touch $@

.venv-mxnet-%/base.stamp: scripts/venv.sh scripts/requirements-mxnet-%.txt | packages
	@scripts/venv.sh .venv-mxnet-$* scripts/requirements-mxnet-$*.txt --no-deps && touch $@

.venv-tvm-ffi-%/base.stamp: scripts/venv.sh scripts/requirements-tvm-ffi-%.txt | packages
	@scripts/venv.sh .venv-tvm-ffi-$* scripts/requirements-tvm-ffi-$*.txt && touch $@

$(BUILD)/CMakeCache.txt: .venv/base.stamp CMakeLists.txt
	@cmake -S . -B $(BUILD) --preset release > .venv/configure.log || { cat .venv/configure.log; exit 1; }

build: $(BUILD)/CMakeCache.txt ## build libtenon and the command build/tenon
	@cmake --build $(BUILD) --parallel $$(nproc) > $(BUILD)/build.log || { grep -E -A8 'error|warning' $(BUILD)/build.log || tail -30 $(BUILD)/build.log; exit 1; }

run: build ## search the licence text for a question (QUESTION="..." asks your own, FILES="..." searches your files)
	@scripts/run.sh $(BUILD) $(if $(QUESTION),-q "$(QUESTION)") $(FILES)

MXNETS := .venv-mxnet-1.7/base.stamp .venv-mxnet-1.8/base.stamp .venv-mxnet-1.9/base.stamp
TVM_FFIS := .venv-tvm-ffi-0.1.15/base.stamp .venv-tvm-ffi-0.1.0/base.stamp

test: ## run all suites; the totals say what did not run and why (TEST_SHARE=all runs the long parts as well)
	@$(MAKE) --no-print-directory -j 3 BUILD=$(BUILD) setup
	@scripts/test.sh $(BUILD)

setup: build packages-test .venv-zoo/base.stamp .venv-compile/base.stamp .venv-jax/base.stamp .venv-tensorflow/base.stamp .venv-classic/base.stamp $(MXNETS) $(TVM_FFIS) ## install everything that the tests need

packages-test: packages
	@scripts/packages.sh test

test-%: build
	@scripts/packages.sh test && scripts/test.sh $(BUILD) $*

test-mxnet: build .venv-zoo/base.stamp $(MXNETS) ## test MXNet's libraries and models in Tenon, and ours in real MXNet 1.7, 1.8 and 1.9
	@scripts/packages.sh test && scripts/test.sh $(BUILD) mxnet

test-tvm-ffi: build $(TVM_FFIS) ## test libraries of tvm-ffi's functions in Tenon, and ours in tvm-ffi (TVM_FFI_CALLS=1000000 makes that many calls)
	@scripts/packages.sh test && scripts/test.sh $(BUILD) tvm-ffi

test-torch-compile: build .venv-zoo/base.stamp ## test torch.compile(backend="tenon") beside eager PyTorch, and all of OpInfo's samples (an hour)
	@scripts/packages.sh test && OPINFO_SHARE= scripts/test.sh $(BUILD) torch-compile

test-compile-models: build .venv-compile/base.stamp ## test models of transformers, timm and others under torch.compile
	@scripts/packages.sh test && scripts/test.sh $(BUILD) compile-models

test-jax: build .venv-zoo/base.stamp .venv-jax/base.stamp ## test operators as functions of JAX
	@scripts/packages.sh test && scripts/test.sh $(BUILD) jax

test-tensorflow: build .venv-tensorflow/base.stamp ## test operators as operators of TensorFlow
	@scripts/packages.sh test && scripts/test.sh $(BUILD) tensorflow

test-tensorflow-device: build .venv-tensorflow/base.stamp ## test a device as TensorFlow's own
	@scripts/packages.sh test && scripts/test.sh $(BUILD) tensorflow-device

test-stablehlo: build .venv-jax/base.stamp ## test programs of JAX as graphs
	@scripts/packages.sh test && scripts/test.sh $(BUILD) stablehlo

BACKEND ?= sim
pjrt: build .venv-jax/base.stamp ## run a program in JAX on a device of Tenon (FILE=program.py; BACKEND=sim); without FILE, a network beside JAX's CPU
	@PYTHONPATH=$(BUILD)/pjrt:$(BUILD)/python TENON_CACHE=$${TENON_CACHE:-$(CURDIR)/$(BUILD)/cache} \
	  $(if $(FILE),TENON_PJRT=$(BACKEND) JAX_PLATFORMS=tenon_$(BACKEND)) .venv-jax/bin/python $(or $(FILE),bench/jax_pjrt.py)

test-stablehlo-large: build .venv-jax/base.stamp ## compare all models of real size with JAX: ResNet-50, ViT-B/16, BERT base and others (MODEL=resnet50 takes one)
	@TENON_BUILD=$(BUILD) .venv-jax/bin/python tests/adapters/stablehlo_large_test.py $(or $(MODEL),all)

test-tensorflow-convert-large: build .venv-tensorflow/base.stamp ## compare converted models of Keras of real size with TensorFlow: ResNet-50, BERT base and others (MODEL=resnet50 takes one)
	@TENON_BUILD=$(BUILD) .venv-tensorflow/bin/python tests/adapters/tensorflow_convert_large_test.py $(or $(MODEL),all)

stablehlo-source: build .venv-jax/base.stamp ## run the test programs of StableHLO's own interpreter (STABLEHLO_SOURCE=DIR, a checkout of openxla/stablehlo; FILE=add and PATTERN=WORDS take a part)
	@STABLEHLO_SOURCE="$(STABLEHLO_SOURCE)" TENON_BUILD=$(BUILD) .venv-jax/bin/python tests/adapters/stablehlo_source_test.py $(FILE) $(PATTERN)

JAX_VERSIONS ?= 0.4.33 0.6.2 0.10.2
jax-versions: build ## test the bridge to JAX with other releases of JAX (JAX_VERSIONS="0.4.33 0.10.2"; JAX_PYTHON=python3.12 for releases that need it)
	@scripts/jax_versions.sh $(BUILD) $(JAX_VERSIONS)

tensorflow-shapes: build .venv-tensorflow/base.stamp ## write the table of shapes in docs/tensorflow.md
	@.venv-tensorflow/bin/python scripts/tensorflow_shapes.py $(BUILD)

TENSORFLOW_VERSIONS ?= 2.16.2 2.19.1
tensorflow-versions: build ## test the bridge to TensorFlow with other releases of TensorFlow (TENSORFLOW_VERSIONS="2.15.1 2.20.0"; TENSORFLOW_PYTHON=python3.12)
	@scripts/tensorflow_versions.sh $(BUILD) $(TENSORFLOW_VERSIONS)

torch-device: build .venv-zoo/base.stamp ## test a device in PyTorch whole: all OpInfo samples, 50 seeds of delays, 10,000 iterations (hours)
	@scripts/packages.sh test && OPINFO_SHARE= TENON_TORCH_SEEDS=50 TENON_TORCH_STEPS=100 TENON_TORCH_ITERATIONS=10000 scripts/test.sh $(BUILD) torch-device

tensorflow-device: build .venv-tensorflow/base.stamp ## test a device in TensorFlow whole: all cases and test bases, 20 seeds of delays, 5,000 steps (an hour)
	@scripts/packages.sh test && TENSORFLOW_SHARE= TEST_SHARE=all TENON_TENSORFLOW_SEEDS=20 TENON_TENSORFLOW_STEPS=5000 scripts/test.sh $(BUILD) tensorflow-device

torch-source: build .venv-zoo/base.stamp ## run PyTorch's own test files on the simulated device (TORCH_SOURCE=DIR, a checkout of PyTorch; FILE=test_ops and PATTERN=WORDS take a part; hours)
	@TORCH_SOURCE="$(TORCH_SOURCE)" TENON_BUILD=$(BUILD) TENON_CACHE=$${TENON_CACHE:-$(CURDIR)/$(BUILD)/cache} .venv-zoo/bin/python tests/adapters/torch_source_test.py $(FILE) $(PATTERN)

mxnet-examples: build .venv-zoo/base.stamp $(MXNETS) ## test the example libraries of MXNet's source tree, unmodified, beside real MXNet (MXNET_SOURCE=DIR)
	@MXNET_SOURCE="$(MXNET_SOURCE)" TENON_BUILD=$(BUILD) .venv-zoo/bin/python tests/adapters/mxnet_examples_test.py

onnxruntime-source: build ## test ONNX Runtime's own test libraries, unmodified, beside ONNX Runtime (ONNXRUNTIME_SOURCE=DIR, a checkout of ONNX Runtime)
	@for part in onnxruntime_test onnxruntime_source_test onnxruntime_provider_test; do ONNXRUNTIME_SOURCE="$(ONNXRUNTIME_SOURCE)" TENON_BUILD=$(BUILD) .venv/bin/python tests/adapters/$$part.py || exit 1; done

test-onnxruntime-provider: build .venv-zoo/base.stamp ## test Tenon as execution provider of ONNX Runtime with all of ONNX's backend cases and the zoo
	@scripts/zoo.sh $(BUILD) && for part in adapters acceptance; do TENON_CASES=all TENON_BUILD=$(BUILD) $(PYTHON) tests/$$part/onnxruntime_provider_test.py || exit 1; done

sanitize: build ## run all C tests and ONNX cases under the address, undefined-behaviour and thread sanitizers
	@scripts/sanitize.sh all asan tsan

stress: build ## register and unload kernels while other threads call them: 10 s, and 60 s under the thread sanitizer
	@scripts/stress.sh $(BUILD)

sim-seeds: build zoo ## test the streams of the simulated device with 1,000 seeds of random delays
	@cmake --build $(BUILD) --target test_device_order test_device_placement --parallel $$(nproc) >$(BUILD)/seeds.log && SIM_SEEDS=1000 $(BUILD)/tests/test_device_order && SIM_SEEDS=1000 $(BUILD)/tests/test_device_placement && SIM_SEEDS=1000 TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/device_models_test.py sim-spread

device-failures: build zoo ## let each allocation, copy and launch of MiniLM on a device fail in turn (FAILURES_MODEL=FILE takes another model)
	@cmake --build $(BUILD) --target test_device_model_failures --parallel $$(nproc) >$(BUILD)/failures.log && TENON_SHOW=1 FAILURES_MODEL=$(or $(FAILURES_MODEL),$(BUILD)/zoo/minilm_16.onnx) $(BUILD)/tests/test_device_model_failures

isolation: build ## run a hundred rounds of each kind of misbehaviour in isolation (ROUNDS=N)
	@cmake --build $(BUILD) --target isolation_rounds isolation_forgeries --parallel $$(nproc) >$(BUILD)/isolation.log && TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/isolation_test.py $(or $(ROUNDS),100)

isolation-fuzz: build ## let a library forge a million replies of each kind, plainly and under the address sanitizer (REPLIES=N; an hour)
	@scripts/isolation_fuzz.sh $(BUILD) $(or $(REPLIES),1000000)

device-faults: build ## run the device suite with all processors busy: 200 times on the correct example, 20 times on each faulty one
	@TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/devices_test.py --all

leaks: build .venv-zoo/base.stamp ## look for leaks in calls from Python and through PyTorch, under valgrind (minutes)
	@TENON_BUILD=$(BUILD) .venv-zoo/bin/python tests/adapters/leaks_test.py torch

failures: build .venv-zoo/base.stamp ## let every request to the system fail in turn during load, import, compile, run and unload, under the address sanitizer (minutes)
	@scripts/failures.sh 1

fuzz: .venv/base.stamp ## fuzz the readers of untrusted input and calls, MINUTES=10 for each target (TARGET="text call" takes these)
	@scripts/packages.sh test && scripts/fuzz.sh $$(( $(or $(MINUTES),10) * 60 )) $(TARGET)

mutations: ## damage programs of StableHLO and models of ONNX for readers (10,000 of each) and writers (2,000), under the address sanitizer (MUTATIONS=N; FUZZ_SEED=N makes others)
	@scripts/mutations.sh $(or $(MUTATIONS),10000)

random-graphs: build ## compare 200,000 random graphs with their plain runs and with double precision, a share on devices and on each instruction set (GRAPHS=N; FIRST=N begins with another) (minutes)
	@cmake --build $(BUILD) --target test_graph_random test_graph_region sim --parallel $$(nproc) >$(BUILD)/random-graphs.log && scripts/random_graphs.sh $(BUILD) $(or $(GRAPHS),200000) $(or $(FIRST),0)

precision: build zoo ## compare errors of compiled models, and of the cases of ONNX's suite, with those of their plain runs against double precision, also on sim and opencl (minutes)
	@PRECISION=whole TENON_BUILD=$(BUILD) TENON_CACHE=$${TENON_CACHE:-$(CURDIR)/$(BUILD)/cache} $(PYTHON) tests/acceptance/precision_test.py

coverage: .venv-zoo/base.stamp ## measure the line coverage of src/ by the tests (half an hour)
	@scripts/packages.sh test && scripts/coverage.sh

exported-models: build .venv-zoo/base.stamp ## export all neural networks of tests/models_gen by PyTorch, and compare them with ONNX Runtime (minutes)
	@TENON_TRUST=whole TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/trust/exported_models_test.py

test-contrib-models: build .venv-zoo/base.stamp ## compare all models that ONNX Runtime's optimizer and quantisers make of networks of tests/models_gen with ONNX Runtime (minutes)
	@TENON_CONTRIB=whole TENON_BUILD=$(BUILD) $(PYTHON) tests/acceptance/contrib/models_test.py

bench: build .venv-zoo/base.stamp $(TVM_FFIS) ## measure the cost of calls, loading, and models against ONNX Runtime and OpenVINO
	@$(PYTHON) bench/run.py $(BENCH)

bench-breadth: build .venv-breadth/base.stamp ## compare 476 networks of transformers, timm, torchvision and others with ONNX Runtime (hours; BREADTH="--set 2 --only 'timm-*' --resume" takes a part)
	@TENON_BUILD=$(BUILD) .venv-breadth/bin/python bench/breadth.py $(BREADTH)

zoo: .venv-zoo/base.stamp ## make the model zoo in build/zoo
	@.venv-zoo/bin/python bench/models/make_zoo.py $(BUILD)/zoo

torch-wheel: build .venv-zoo/base.stamp ## write the wheel libtenon-torch, the C++ parts for PyTorch 2.13, to build/dist
	@PYTHONPATH=$(BUILD)/python TENON_CACHE=$(BUILD)/cache .venv-zoo/bin/python scripts/torch_wheel.py $(BUILD)/dist

install: build ## install into PREFIX (/usr/local)
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

support: build .venv-zoo/base.stamp ## write docs/support.md, what each built-in operator supports, and the tables of operators of ONNX Runtime, PyTorch and TensorFlow
	@$(PYTHON) scripts/support.py $(BUILD)
	@$(PYTHON) scripts/rewrites.py $(BUILD)
	@$(PYTHON) scripts/onnxruntime_operators.py $(BUILD)
	@$(PYTHON) scripts/tensorflow_operators.py $(BUILD)
	@PYTHONPATH=$(BUILD)/python .venv-zoo/bin/python scripts/torch_operators.py
	@PYTHONPATH=$(BUILD)/python .venv-zoo/bin/python scripts/torch_compile_operators.py

abi-update: build ## update abi/ after an addition to the headers; refuses a change that breaks the contract
	@$(PYTHON) abi/update.py update $(BUILD)

abi-snapshot: .venv/base.stamp ## copy the headers into abi/VERSION, for a release
	@$(PYTHON) abi/update.py snapshot

format: ## lay the sources out with clang-format
	@scripts/sources.sh | xargs clang-format -i --style=file

clean: ## remove the build folders and keep the virtual environments
	rm -rf $(BUILD) build-*

.PHONY: help packages build run test setup packages-test test-mxnet test-tvm-ffi pjrt torch-device tensorflow-device torch-source test-stablehlo-large test-tensorflow-convert-large stablehlo-source mxnet-examples onnxruntime-source sanitize stress sim-seeds device-failures isolation-fuzz device-faults leaks failures fuzz mutations random-graphs precision coverage exported-models test-contrib-models bench bench-breadth zoo torch-wheel install support abi-update abi-snapshot format clean
