"""Writes small models of scikit-learn, XGBoost and LightGBM, trained on random data, as ONNX files.

Usage: make_classic.py FOLDER, in an environment with scikit-learn, skl2onnx, xgboost (or xgboost-cpu), lightgbm and onnxmltools.  Beside
NAME.onnx is NAME.npz: for each size its inputs, as INPUT.SIZE.
"""
import sys
import warnings
from pathlib import Path

import lightgbm
import numpy as np
import onnx
import onnxmltools
import skl2onnx
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as OtherFloat
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn import compose, discriminant_analysis, ensemble, feature_extraction, feature_selection, gaussian_process, impute, linear_model
from sklearn import multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree

warnings.filterwarnings("ignore")
RANDOM = np.random.default_rng(11)
ROWS, FEATURES = 240, 6
SIZES = {"one": 1, "few": 5, "many": 300}
X = RANDOM.standard_normal((ROWS, FEATURES)).astype(np.float32)
X_NAN = np.where(RANDOM.uniform(size=X.shape) < 0.15, np.nan, X).astype(np.float32)
RAW = X[:, 0] * 2 + np.sin(3 * X[:, 1]) - X[:, 2] * X[:, 3]
Y = {"real": RAW, "two": (RAW > 0).astype(int), "three": np.digitize(RAW, [-1, 1]), "words": np.array(["no", "maybe", "yes"])[np.digitize(RAW, [-1, 1])],
     "several": np.stack([RAW, X[:, 4] - RAW], 1), "words2": np.array(["no", "yes"])[(RAW > 0).astype(int)]}


def fresh(rows, missing=False):
    x = np.random.default_rng(rows).standard_normal((rows, FEATURES)).astype(np.float32)
    return np.where(np.random.default_rng(rows + 1).uniform(size=x.shape) < 0.2, np.nan, x).astype(np.float32) if missing else x


def save(folder, name, model, inputs):
    onnx.save(model, folder / f"{name}.onnx")
    np.savez(folder / f"{name}.npz", **{f"{key}.{size}": value for size, values in inputs.items() for key, value in values.items()})


def sizes(missing=False, dtype=np.float32):
    return {size: {"x": fresh(rows, missing).astype(dtype)} for size, rows in SIZES.items()}


def of_sklearn(folder, name, estimator, target, zipmap=False, missing=False, double=False, options=None):
    estimator.fit(X_NAN if missing else X, Y[target] if target else None)
    kind = DoubleTensorType if double else FloatTensorType
    chosen = dict(options or {})
    if target in ("two", "three", "words", "words2") and hasattr(estimator, "classes_"):
        chosen["zipmap"] = zipmap
    model = skl2onnx.to_onnx(estimator, initial_types=[("x", kind([None, FEATURES]))], options={id(estimator): chosen} if chosen else None,
                             target_opset={"": 18, "ai.onnx.ml": 3})
    save(folder, name, model, sizes(missing, np.float64 if double else np.float32))


SKLEARN = {
    "tree-regressor": lambda: (tree.DecisionTreeRegressor(max_depth=6), "real"),
    "tree-regressor-several": lambda: (tree.DecisionTreeRegressor(max_depth=5), "several"),
    "tree-classifier-two": lambda: (tree.DecisionTreeClassifier(max_depth=6), "two"),
    "tree-classifier-words": lambda: (tree.DecisionTreeClassifier(max_depth=6), "words"),
    "forest-regressor": lambda: (ensemble.RandomForestRegressor(30, max_depth=8), "real"),
    "forest-classifier-two": lambda: (ensemble.RandomForestClassifier(20, max_depth=6), "two"),
    "forest-classifier-three": lambda: (ensemble.RandomForestClassifier(20, max_depth=6), "three"),
    "extra-trees": lambda: (ensemble.ExtraTreesClassifier(15), "words2"),
    "boosting-regressor": lambda: (ensemble.GradientBoostingRegressor(n_estimators=30), "real"),
    "boosting-classifier-two": lambda: (ensemble.GradientBoostingClassifier(n_estimators=20), "two"),
    "boosting-classifier-three": lambda: (ensemble.GradientBoostingClassifier(n_estimators=20), "three"),
    "histogram-regressor": lambda: (ensemble.HistGradientBoostingRegressor(max_iter=30), "real"),
    "histogram-classifier": lambda: (ensemble.HistGradientBoostingClassifier(max_iter=20), "two"),
    "adaboost": lambda: (ensemble.AdaBoostClassifier(n_estimators=10), "three"),
    "isolation-forest": lambda: (ensemble.IsolationForest(n_estimators=20), None),
    "voting": lambda: (ensemble.VotingClassifier([("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], voting="soft", flatten_transform=False), "three"),
    "linear-regression": lambda: (linear_model.LinearRegression(), "real"),
    "linear-regression-several": lambda: (linear_model.LinearRegression(), "several"),
    "ridge": lambda: (linear_model.Ridge(), "real"),
    "logistic-two": lambda: (linear_model.LogisticRegression(), "two"),
    "logistic-three": lambda: (linear_model.LogisticRegression(), "three"),
    "logistic-words": lambda: (linear_model.LogisticRegression(), "words"),
    "logistic-one-vs-rest": lambda: (multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), "three"),
    "sgd": lambda: (linear_model.SGDClassifier(random_state=1), "three"),
    "lda": lambda: (discriminant_analysis.LinearDiscriminantAnalysis(), "three"),
    "naive-bayes": lambda: (naive_bayes.GaussianNB(), "three"),
    "svr-rbf": lambda: (svm.SVR(kernel="rbf"), "real"),
    "svr-poly": lambda: (svm.SVR(kernel="poly", degree=3), "real"),
    "svr-sigmoid": lambda: (svm.SVR(kernel="sigmoid"), "real"),
    "svr-linear": lambda: (svm.SVR(kernel="linear"), "real"),
    "svc-two": lambda: (svm.SVC(), "two"),
    "svc-three": lambda: (svm.SVC(), "three"),
    "svc-words": lambda: (svm.SVC(kernel="poly"), "words"),
    "svc-probability-two": lambda: (svm.SVC(probability=True, random_state=1), "two"),
    "svc-probability-three": lambda: (svm.SVC(probability=True, random_state=1), "three"),
    "linear-svc": lambda: (svm.LinearSVC(), "three"),
    "one-class-svm": lambda: (svm.OneClassSVM(), None),
    "knn-classifier": lambda: (neighbors.KNeighborsClassifier(4), "three"),
    "knn-regressor": lambda: (neighbors.KNeighborsRegressor(4), "real"),
    "mlp-classifier": lambda: (neural_network.MLPClassifier((16,), max_iter=60), "three"),
    "mlp-regressor": lambda: (neural_network.MLPRegressor(hidden_layer_sizes=(16,), max_iter=60), "real"),
    "gaussian-process": lambda: (gaussian_process.GaussianProcessRegressor(), "real"),
    "multi-output": lambda: (multioutput.MultiOutputRegressor(ensemble.GradientBoostingRegressor(n_estimators=5)), "several"),
    "scaler": lambda: (preprocessing.StandardScaler(), None),
    "min-max-scaler": lambda: (preprocessing.MinMaxScaler(), None),
    "robust-scaler": lambda: (preprocessing.RobustScaler(), None),
    "normaliser-l1": lambda: (preprocessing.Normalizer("l1"), None),
    "normaliser-l2": lambda: (preprocessing.Normalizer("l2"), None),
    "normaliser-max": lambda: (preprocessing.Normalizer("max"), None),
    "binariser": lambda: (preprocessing.Binarizer(threshold=0.2), None),
    "polynomial": lambda: (preprocessing.PolynomialFeatures(2), None),
    "bins": lambda: (preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), None),
    "select": lambda: (feature_selection.SelectKBest(k=3), "three"),
    "pipeline": lambda: (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()), "words"),
}
DOUBLE = ("tree-regressor", "forest-classifier-three", "boosting-regressor")
WITH_MAPS = ("logistic-words", "forest-classifier-three", "tree-classifier-two")


def make_features(folder):
    """Pipelines of columns with words, integers and missing numbers."""
    words = RANDOM.choice(["red", "green", "blue"], (ROWS, 1)).astype(object)
    encoder = preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(words)
    few = {size: {"x": np.random.default_rng(rows).choice(["red", "green", "blue", "black"], (rows, 1)).astype(object).astype(str)} for size, rows in SIZES.items()}
    save(folder, "one-hot-words", skl2onnx.to_onnx(encoder, initial_types=[("x", StringTensorType([None, 1]))], target_opset={"": 18, "ai.onnx.ml": 3}), few)
    numbers = RANDOM.integers(0, 5, (ROWS, 2))
    encoder = preprocessing.OneHotEncoder(sparse_output=False).fit(numbers)
    save(folder, "one-hot-ints", skl2onnx.to_onnx(encoder, initial_types=[("x", Int64TensorType([None, 2]))], target_opset={"": 18, "ai.onnx.ml": 3}),
         {size: {"x": np.random.default_rng(rows).integers(0, 5, (rows, 2))} for size, rows in SIZES.items()})
    encoder = preprocessing.OrdinalEncoder().fit(numbers)
    save(folder, "ordinal", skl2onnx.to_onnx(encoder, initial_types=[("x", Int64TensorType([None, 2]))], target_opset={"": 18, "ai.onnx.ml": 3}),
         {size: {"x": np.random.default_rng(rows).integers(0, 5, (rows, 2))} for size, rows in SIZES.items()})
    encoder = preprocessing.LabelEncoder().fit(words[:, 0])
    save(folder, "label-encoder", skl2onnx.to_onnx(encoder, initial_types=[("x", StringTensorType([None]))], target_opset={"": 18, "ai.onnx.ml": 3}),
         {size: {"x": values["x"][:, 0][values["x"][:, 0] != "black"]} for size, values in few.items() if size != "one"})
    for strategy in ("mean", "constant"):
        imputer = impute.SimpleImputer(strategy=strategy, fill_value=3 if strategy == "constant" else None).fit(X_NAN)
        save(folder, f"imputer-{strategy}", skl2onnx.to_onnx(imputer, initial_types=[("x", FloatTensorType([None, FEATURES]))], target_opset={"": 18, "ai.onnx.ml": 3}),
             sizes(missing=True))
    both = compose.ColumnTransformer([("scale", preprocessing.StandardScaler(), [0, 2]), ("keep", "passthrough", [1]), ("norm", preprocessing.Normalizer(), [3, 4])])
    model = pipeline.make_pipeline(both, ensemble.RandomForestClassifier(10, max_depth=4)).fit(X, Y["three"])
    save(folder, "columns", skl2onnx.to_onnx(model, initial_types=[("x", FloatTensorType([None, FEATURES]))], options={"zipmap": False},
                                             target_opset={"": 18, "ai.onnx.ml": 3}), sizes())


def make_boosted(folder):
    """XGBoost and LightGBM, also with missing numbers."""
    initial = [("x", OtherFloat([None, FEATURES]))]
    for name, model, target in (
            ("xgboost-regressor", xgboost.XGBRegressor(n_estimators=25, max_depth=4), "real"),
            ("xgboost-classifier-two", xgboost.XGBClassifier(n_estimators=20, max_depth=4), "two"),
            ("xgboost-classifier-three", xgboost.XGBClassifier(n_estimators=15, max_depth=4), "three"),
            ("xgboost-forest", xgboost.XGBRFRegressor(n_estimators=20, max_depth=4), "real"),
            ("xgboost-poisson", xgboost.XGBRegressor(n_estimators=15, objective="count:poisson"), "counts")):
        model.fit(X_NAN, np.abs(RAW) if target == "counts" else Y[target])
        save(folder, name, onnxmltools.convert_xgboost(model, initial_types=initial, target_opset=15), sizes(missing=True))
    for name, model, target in (
            ("lightgbm-regressor", lightgbm.LGBMRegressor(n_estimators=25, verbose=-1), "real"),
            ("lightgbm-classifier-two", lightgbm.LGBMClassifier(n_estimators=20, verbose=-1), "two"),
            ("lightgbm-classifier-three", lightgbm.LGBMClassifier(n_estimators=15, verbose=-1), "three"),
            ("lightgbm-forest", lightgbm.LGBMRegressor(n_estimators=15, boosting_type="rf", bagging_freq=1, bagging_fraction=0.8, verbose=-1), "real")):
        model.fit(X_NAN, Y[target])
        save(folder, name, onnxmltools.convert_lightgbm(model, initial_types=initial, target_opset=15, zipmap=False), sizes(missing=True))
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(X, Y["two"])
    save(folder, "lightgbm-maps", onnxmltools.convert_lightgbm(model, initial_types=initial, target_opset=15), sizes())


def make_text(folder):
    texts = [["the cat sat on the mat"], ["the dog sat"], ["cats and dogs and cats"], ["a mat for the cat"]]
    flat = [row[0] for row in texts]
    vectoriser = feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2)).fit(flat)
    model = skl2onnx.to_onnx(vectoriser, initial_types=[("x", StringTensorType([None]))], target_opset={"": 18, "ai.onnx.ml": 3})
    save(folder, "tfidf-text", model, {"one": {"x": np.array(flat[:1])}, "few": {"x": np.array(flat)}})


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    failed = {}
    jobs = {name: (lambda name=name: of_sklearn(folder, name, *SKLEARN[name]())) for name in SKLEARN}
    jobs |= {f"{name}-double": (lambda name=name: of_sklearn(folder, f"{name}-double", *SKLEARN[name](), double=True)) for name in DOUBLE}
    jobs |= {f"{name}-maps": (lambda name=name: of_sklearn(folder, f"{name}-maps", *SKLEARN[name](), zipmap=True)) for name in WITH_MAPS}
    jobs |= {"features": lambda: make_features(folder), "boosted": lambda: make_boosted(folder), "text": lambda: make_text(folder)}
    for name, job in jobs.items():
        try:
            job()
        except Exception as error:  # a converter that refuses its own library's model is no failure of this suite
            failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"
    for name, why in failed.items():
        print(f"skip: {name}: {why}")
    print(f"{len(list(folder.glob('*.onnx')))} models in {folder}")


if __name__ == "__main__":
    main()
